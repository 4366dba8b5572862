"""Random numbers keyed by what is being drawn, the same everywhere."""

from core.randomness.counter import keep_mask, sample_uniforms
from core.randomness.streams import permutation, stream, uniform

__all__ = ["keep_mask", "permutation", "sample_uniforms", "stream", "uniform"]
