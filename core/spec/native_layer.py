"""The layer that is a whole network of the user's own."""

from __future__ import annotations

from dataclasses import dataclass

from core.spec.layer import Layer, ParameterSpec, Shape


@dataclass(frozen=True)
class Native(Layer):
    """A user's class, of which only the outside is known: its tensors, and that it ends in one logit a class.

    Its tensors have the class's own names, without the layer's. It is on every card as a whole.

    Attributes:
        target: The class, as "package.module:Class".
        arguments: Its keyword arguments, a JSON object.
        sample_shape: Of what it takes.
        num_classes: Logits that it gives.
        trained: What the optimizer changes, float32.
        frozen: Parameters that ask for no gradient, which nothing changes.
        moving: Buffers, which the class itself may change in a forward pass.
        num_flops: Operations of one forward pass for one sample, as the framework counts them.
        batch_norms: Names of parts that normalise by the statistics of the rows that they see.
        random_parts: Names of parts that draw random numbers in training.
    """

    target: str
    arguments: str
    sample_shape: Shape
    num_classes: int
    trained: tuple[ParameterSpec, ...]
    frozen: tuple[ParameterSpec, ...] = ()
    moving: tuple[ParameterSpec, ...] = ()
    num_flops: int = 0
    batch_norms: tuple[str, ...] = ()
    random_parts: tuple[str, ...] = ()

    def output_shape(self, shape: Shape, *others: Shape) -> Shape:
        self._require(shape == self.sample_shape, shape, f"{self.sample_shape}, with which it was tried")
        return (self.num_classes,)

    def parameters(self) -> tuple[ParameterSpec, ...]:
        return self.trained

    def buffers(self) -> tuple[ParameterSpec, ...]:
        return (*self.frozen, *self.moving)

    def flops(self, shape: Shape) -> int:
        return self.num_flops
