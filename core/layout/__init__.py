"""How tensors lie over cards: mesh, placements, layout, the collectives that follow, and their bytes."""

from core.layout.buckets import Bucket, gradient_buckets
from core.layout.flow import Flow, LayerStep, build_flow
from core.layout.layout import Layout
from core.layout.mesh import Axis, Mesh
from core.layout.placement import Partial, Placement, Replicate, Shard
from core.layout.traffic import Payload, StepSize, step_payloads, wire_bytes
from core.layout.transition import Transition

__all__ = [
    "Axis",
    "Bucket",
    "Flow",
    "LayerStep",
    "Layout",
    "Mesh",
    "Partial",
    "Payload",
    "Placement",
    "Replicate",
    "Shard",
    "StepSize",
    "Transition",
    "build_flow",
    "gradient_buckets",
    "step_payloads",
    "wire_bytes",
]
