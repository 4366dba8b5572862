"""Checkpoints that belong to no framework and no layout."""

from core.checkpoint.commit import save_checkpoint
from core.checkpoint.format import Checkpoint, Position
from core.checkpoint.load import load_checkpoint, verify_checkpoint
from core.checkpoint.store import CheckpointStore, find_checkpoint

__all__ = [
    "Checkpoint",
    "CheckpointStore",
    "Position",
    "find_checkpoint",
    "load_checkpoint",
    "save_checkpoint",
    "verify_checkpoint",
]
