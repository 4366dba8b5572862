"""The typed config of a run, and where Hydra finds its parts."""

from core.config.assembly import Assembly, assemble
from core.config.freeze import load_frozen, save_frozen
from core.config.schema import Choice, Device, OnError, OnNan, RunConfig
from core.config.typed import build_run_config, build_typed

__all__ = [
    "Assembly",
    "Choice",
    "Device",
    "OnError",
    "OnNan",
    "RunConfig",
    "assemble",
    "build_run_config",
    "build_typed",
    "load_frozen",
    "save_frozen",
]
