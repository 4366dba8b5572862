"""A network that is a user's own class."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NoReturn

from core.contracts import Model, ModelOptions, UserClass
from core.errors import ConfigError, SpecError
from core.spec import SampleSpec

TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@dataclass(kw_only=True)
class NativeOptions(ModelOptions):
    """The options of model=native."""

    target: dict[str, str | None] = field(default_factory=dict)  # for each backend a class, as package.module:Class
    arguments: dict[str, Any] | None = None  # its keyword arguments, plain values
    head: str | None = None  # prefix of its classifier's names, which replace_head starts anew

    def __post_init__(self) -> None:
        super().__post_init__()
        for backend, target in self.target.items():
            if target is not None and not TARGET.fullmatch(target):
                raise ConfigError(
                    f"'model.target.{backend}' names no class.",
                    received=repr(target),
                    allowed="package.module:Class, importable from the current directory or installed",
                )
        if self.replace_head != (self.head is not None):
            raise ConfigError(
                "'model.replace_head' needs 'model.head', and model.head is for nothing else.",
                received=f"model.replace_head={str(self.replace_head).lower()} model.head={self.head or 'null'}",
                allowed="both or neither",
                remedy="Set model.head to the prefix of the classifier's names, such as fc.",
            )


class Native(Model):
    """A class of the user's own for each backend, such as a `torch.nn.Module`, on the same trainer.

    It is called with `arguments`, takes a batch of samples as the transforms give them (float32 images (N, C, H, W), or
    int32 token ids (N, length)) and returns logits (N, num_classes). Cards split the batch; the class is whole on each.

    Everywhere else names in a config are looked up in registries and nothing that it contains is executed. This is the
    one exception, by explicit wish: the name is imported, on the ranks and in a process that describes the class, and
    the class is called with plain values; nothing else is evaluated. A config with model=native deserves the trust of
    the code that it names.
    """

    name = "native"
    Options = NativeOptions

    def spec(self, sample: SampleSpec) -> NoReturn:
        raise SpecError("Model 'native' is no data: only a backend that has imported its class can say what it is.")

    def user_class(self, backend: str) -> UserClass:
        target = self.options.target.get(backend)
        if target is None:
            others = ", ".join(name for name, given in self.options.target.items() if given is not None)
            raise ConfigError(
                f"Model 'native' has no class for backend '{backend}'.",
                received=f"classes for {others}" if others else "no class at all",
                remedy=f"Set model.target.{backend}=package.module:Class.",
            )
        return UserClass(target, dict(self.options.arguments or {}))

    @property
    def head(self) -> str | None:
        head: str | None = self.options.head
        return head
