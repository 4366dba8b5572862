"""From a user's class to a model spec, by asking the backend what the class is; and what such a model cannot have."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from core.contracts import (
    DESCRIPTION_FILE,
    TENSORS_FILE,
    Backend,
    DescribeRequest,
    Description,
    Model,
    UserClass,
)
from core.errors import ConfigError, LayoutError, SpecError
from core.layout import Layout
from core.spec import ModelSpec, Native, ParameterSpec, SampleSpec, Stored

LAYER = "network"
MOST_LINES = 6


def build_spec(model: Model, backend: Backend, sample: SampleSpec, seed: int, folder: Path | None) -> ModelSpec:
    """Returns the network of a model for samples.

    Args:
        model: If it is a user's class, the backend describes it in a process of its own.
        backend: On which it will run.
        sample: What it takes.
        seed: Of the class's initial values.
        folder: Holds the description of a user's class, or gets it; the spec's initial values are read from there when
            they are drawn. None: the description is forgotten, and they cannot be drawn.

    Raises:
        SpecError: The model cannot take the samples, or the user's class does not do as it must.
        ConfigError: The class cannot be imported or called; there is none for the backend.
    """
    user_class = model.user_class(backend.name)
    if user_class is None:
        return model.spec(sample)
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="anycard-") as temporary:
            return build_spec(model, backend, sample, seed, Path(temporary))
    if not (folder / DESCRIPTION_FILE).exists():
        _describe(user_class, backend, sample, seed, folder)
    description = Description.from_json((folder / DESCRIPTION_FILE).read_text())
    if description.problem is not None:
        raise SpecError(
            description.problem,
            received=description.received,
            allowed=description.allowed,
            remedy="\n    ".join(["The last calls before it:", *description.calls]) if description.calls else None,
        )
    spec = _to_spec(model, user_class, sample, description, folder / TENSORS_FILE)
    if model.head is not None and not any(one.name.startswith(f"{model.head}.") for one in spec.parameters):
        raise ConfigError(
            "'model.head' is no prefix of a parameter's name.",
            received=model.head,
            allowed=", ".join(sorted({one.name.split(".")[0] for one in spec.parameters})),
        )
    return spec


def _describe(user_class: UserClass, backend: Backend, sample: SampleSpec, seed: int, folder: Path) -> None:
    """Has the backend write the description of a class into `folder`."""
    command = backend.describe_command(DescribeRequest.of(user_class, sample, seed, str(folder)))
    if command is None:
        raise ConfigError(
            f"Backend '{backend.name}' takes no class of a user's own.",
            received=f"model.target.{backend.name}={user_class.target}",
            remedy="Choose another backend, or a model that is data.",
        )
    environment = {**os.environ, **command.environment}
    done = subprocess.run(command.argv, env=environment, capture_output=True, text=True, errors="replace")
    if done.returncode or not (folder / DESCRIPTION_FILE).exists():
        tail = "\n    ".join(done.stderr.strip().splitlines()[-MOST_LINES:])
        raise SpecError(
            f"The process that was to describe '{user_class.target}' ended with code {done.returncode}.",
            remedy=f"Its last words:\n    {tail}" if tail else "It said nothing.",
        )


def _to_spec(
    model: Model, user_class: UserClass, sample: SampleSpec, description: Description, tensors: Path
) -> ModelSpec:
    trained, frozen, moving = (
        tuple(ParameterSpec(one.name, one.shape, Stored(tensors), one.dtype) for one in found)
        for found in (description.trained, description.frozen, description.moving)
    )
    layer = Native(
        LAYER,
        target=user_class.target,
        arguments=json.dumps(user_class.arguments),
        sample_shape=sample.shape,
        num_classes=sample.num_classes,
        trained=trained,
        frozen=frozen,
        moving=moving,
        num_flops=description.num_flops,
        batch_norms=description.batch_norms,
        random_parts=description.random_parts,
    )
    return ModelSpec(model.name, sample, (layer,), model.head or "")


def with_notes(spec: ModelSpec, layout: Layout, shards: int | None) -> Layout:
    """Returns the layout of a model with what a user should know of their own class on several cards.

    Raises:
        LayoutError: The layout does more than split the batch, which a class that is known from outside cannot follow.
        ConfigError: The batch is to be computed in ordered parts, and the class has buffers.
    """
    notes = list(layout.notes)
    for layer in spec.layers:
        if not isinstance(layer, Native):
            continue
        if layout.sharded_axes or layout.num_batch_shards != layout.mesh.num_cards:
            raise LayoutError(
                f"Sharder '{layout.sharder}' cannot lay a user's class over cards: it is whole on each of them.",
                received=f"model '{spec.name}', {layer.target}",
                allowed="a sharder that only splits the batch",
                remedy="Use sharder=data_parallel or sharder=zero1.",
            )
        if shards is not None and layer.buffers():
            raise ConfigError(
                f"'batch.shards={shards}' cannot be had with a user's class that has buffers or frozen parameters: the "
                "parts of the batch run on replicas, which share trained parameters alone.",
                received=", ".join(one.name for one in layer.buffers()[:3]),
                remedy="Use batch.shards=null.",
            )
        if layout.mesh.num_cards > 1:
            notes += _notes(layer, shards)
    return replace(layout, notes=tuple(notes))


def _notes(layer: Native, shards: int | None) -> list[str]:
    notes = []
    if layer.batch_norms:
        notes.append(
            f"{_listed(layer.batch_norms)} of {layer.target}: a batch norm of your own sees one card's rows alone in "
            "training"
        )
    if layer.moving:
        notes.append(f"buffers of {layer.target} are averaged over the cards after each step (integers: the largest)")
    if layer.random_parts and shards is None:
        notes.append(
            f"{_listed(layer.random_parts)} of {layer.target}: random numbers of your own depend on the number of cards"
        )
    return notes


def _listed(names: tuple[str, ...]) -> str:
    return f"'{names[0]}'" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
