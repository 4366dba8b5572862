"""The counter-based generator from which everything random is drawn."""

from core.randomness.streams import permutation, stream, uniform

__all__ = ["permutation", "stream", "uniform"]
