"""Checkpoints that belong to no framework and no layout."""

from core.checkpoint.checkpoint import Checkpoint, Position
from core.checkpoint.find import find_checkpoint
from core.checkpoint.load import load_checkpoint, verify_checkpoint
from core.checkpoint.save import save_checkpoint
from core.checkpoint.store import CheckpointStore
from core.checkpoint.weights import PublishedWeights, find_weights

__all__ = [
    "Checkpoint",
    "CheckpointStore",
    "Position",
    "PublishedWeights",
    "find_checkpoint",
    "find_weights",
    "load_checkpoint",
    "save_checkpoint",
    "verify_checkpoint",
]
