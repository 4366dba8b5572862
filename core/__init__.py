"""anycard: one config trains one model on any framework and any number of cards.

These names are what a plugin's author needs; `core.spec`, `core.layout` and `core.errors` hold the data they speak of.
"""

from core.contracts import (
    ArraySplit,
    Backend,
    Communicator,
    Dataset,
    Engine,
    Model,
    Optimizer,
    Sharder,
)
from core.hookspecs import hookimpl, hookspec

__version__ = "0.1.0"

__all__ = [
    "ArraySplit",
    "Backend",
    "Communicator",
    "Dataset",
    "Engine",
    "Model",
    "Optimizer",
    "Sharder",
    "__version__",
    "hookimpl",
    "hookspec",
]
