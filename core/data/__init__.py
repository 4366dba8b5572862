"""The order of samples, and batches as arrays."""

from core.data.batches import BatchPlan, LastBatch
from core.data.check import check_dataset
from core.data.evaluation import evaluation_windows
from core.data.loader import Loader

__all__ = ["BatchPlan", "LastBatch", "Loader", "check_dataset", "evaluation_windows"]
