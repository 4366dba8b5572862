"""BERT's encoder with a classifier on top."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from core.contracts import Model, ModelOptions
from core.errors import ConfigError, SpecError
from core.spec import (
    GELU,
    INPUT,
    Add,
    AddPositions,
    AddSegment,
    Attention,
    Dropout,
    Embedding,
    FirstToken,
    Layer,
    LayerNorm,
    Linear,
    ModelSpec,
    Normal,
    SampleSpec,
    Tanh,
)

INITIAL = Normal(0.02)
EPS = 1e-12
NUM_POSITIONS, NUM_SEGMENTS = 512, 2
LAYER_NORM_NAMES = {"gamma": "weight", "beta": "bias"}


class Size(Enum):
    """Layers, features and heads of a published size."""

    tiny = "tiny"  # 2 layers, 128 features, 2 heads (Turc et al. 2019, arXiv:1908.08962)
    base = "base"  # 12 layers, 768 features, 12 heads


SIZES = {Size.tiny: (2, 128, 2), Size.base: (12, 768, 12)}


@dataclass(kw_only=True)
class BertOptions(ModelOptions):
    """The options of model=bert."""

    size: Size = Size.tiny
    dropout: float = 0.1  # of activations and of attention's probabilities
    heads: int | None = None  # attention heads; null: the size's
    vocabulary: int | None = None  # rows of the token table; null: as many as the data has token ids

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.dropout < 1:
            raise ConfigError("'model.dropout' is out of range.", received=self.dropout, allowed="a number in [0, 1)")
        features = SIZES[self.size][1]
        if self.heads is not None and (self.heads < 1 or features % self.heads):
            raise ConfigError("'model.heads' does not fit.", received=self.heads, allowed=f"a divisor of {features}")


class Bert(Model):
    """A bidirectional transformer encoder for classification, with the names of Hugging Face's BERT.

    Source: Devlin et al. 2018, arXiv:1810.04805; `transformers.BertForSequenceClassification` (4.57) for the names, the
    pooler and the initial values (normal of std 0.02, which there is not cut either).
    """

    name = "bert"
    Options = BertOptions
    foreign_heads = ("cls.",)  # of pre-training

    def spec(self, sample: SampleSpec) -> ModelSpec:
        if sample.vocabulary is None or len(sample.shape) != 1 or sample.shape[0] > NUM_POSITIONS:
            raise SpecError(
                "Model 'bert' takes sequences of token ids.",
                received=f"samples of shape {sample.shape}" + ("" if sample.vocabulary else ", which are numbers"),
                allowed=f"(length,) of at most {NUM_POSITIONS} token ids",
                remedy="Choose data=text, or data=synthetic_text.",
            )
        rows = self.options.vocabulary or sample.vocabulary
        if rows < sample.vocabulary:
            raise ConfigError(
                "'model.vocabulary' is too small for the data.",
                received=rows,
                allowed=f"at least {sample.vocabulary}",
            )
        return ModelSpec(self.name, sample, tuple(self._layers(sample, rows)), head="classifier")

    def canonical_name(self, published: str) -> str | None:
        """Returns the name with the prefix and the layer norm's newer names, which not all publications have."""
        name = f"bert.{published}" if published.startswith(("embeddings.", "encoder.", "pooler.")) else published
        if name.endswith("embeddings.position_ids"):
            return None
        stem, _, last = name.rpartition(".")
        return f"{stem}.{LAYER_NORM_NAMES.get(last, last)}"

    def _layers(self, sample: SampleSpec, rows: int) -> Iterator[Layer]:
        num_layers, features, heads = SIZES[self.options.size]
        heads = self.options.heads or heads
        at = "bert.embeddings"
        yield Embedding(f"{at}.word_embeddings", rows, features, INITIAL)
        yield AddPositions(f"{at}.position_embeddings", NUM_POSITIONS, features, INITIAL)
        yield AddSegment(f"{at}.token_type_embeddings", NUM_SEGMENTS, features, INITIAL)
        yield LayerNorm(f"{at}.LayerNorm", features, EPS)
        before = f"{at}.LayerNorm"
        if self.options.dropout:
            before = f"{at}.dropout"
            yield Dropout(before, self.options.dropout)
        for index in range(num_layers):
            name = f"bert.encoder.layer.{index}"
            yield from self._attention(f"{name}.attention", before, features, heads)
            middle = f"{name}.attention.output.LayerNorm"
            yield Linear(f"{name}.intermediate.dense", features, 4 * features, INITIAL)
            yield GELU(f"{name}.intermediate.gelu")
            yield from self._output(f"{name}.output", 4 * features, features, middle)
            before = f"{name}.output.LayerNorm"
        yield FirstToken("bert.pooler.first_token")
        yield Linear("bert.pooler.dense", features, features, INITIAL)
        yield Tanh("bert.pooler.activation")
        if self.options.dropout:
            yield Dropout("dropout", self.options.dropout)
        yield Linear("classifier", features, sample.num_classes, INITIAL)

    def _attention(self, name: str, before: str, features: int, heads: int) -> Iterator[Layer]:
        parts = tuple(f"{name}.self.{part}" for part in ("query", "key", "value"))
        for part in parts:
            yield Linear(part, features, features, INITIAL, inputs=(before,))
        yield Attention(f"{name}.self.attention", heads, self.options.dropout, inputs=(*parts, INPUT))
        yield from self._output(f"{name}.output", features, features, before)

    def _output(self, name: str, inputs: int, features: int, residual: str) -> Iterator[Layer]:
        """Yields the end of a block: a linear layer, dropout, the residual sum and its layer norm."""
        yield Linear(f"{name}.dense", inputs, features, INITIAL)
        last = f"{name}.dense"
        if self.options.dropout:
            last = f"{name}.dropout"
            yield Dropout(last, self.options.dropout)
        yield Add(f"{name}.add", inputs=(last, residual))
        yield LayerNorm(f"{name}.LayerNorm", features, EPS)
