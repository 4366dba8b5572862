"""From texts to token ids with Hugging Face's tokenizers, which an extra brings."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from core.errors import DataError

PAD, UNKNOWN, BEGIN, END = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
PAD_ID = 0


def require_tokenizers() -> None:
    """Raises DataError if tokenizers is not installed."""
    if importlib.util.find_spec("tokenizers") is None:
        raise DataError("Texts need tokenizers, which is not installed.", remedy="pip install 'anycard[text]'")


def load_tokenizer(path: Path, lowercase: bool) -> Any:
    """Returns the tokenizer of a tokenizer.json, or WordPiece with the vocabulary of a BERT vocab.txt.

    Args:
        path: The file; one that ends in .txt is a vocabulary, a token a line.
        lowercase: Whether a vocabulary is of lower-case text; a tokenizer.json says so itself.

    Raises:
        DataError: The file is missing or damaged, lacks a special token, or [PAD] is not token 0.
    """
    from tokenizers import Tokenizer

    try:
        if path.suffix == ".txt":
            tokens = path.read_text(encoding="utf-8").splitlines()
            tokenizer = _word_piece({token: number for number, token in enumerate(tokens)}, lowercase)
        else:
            tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path} is missing.", remedy="Set data.tokenizer, or null to train one.") from None
    except Exception as error:
        # The library raises bare exceptions.
        raise DataError(f"{path} is no tokenizer.", received=str(error), allowed="tokenizer.json, vocab.txt") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    for token in SPECIAL if path.suffix == ".txt" else (PAD, BEGIN, END):
        if tokenizer.token_to_id(token) is None:
            raise DataError(f"The tokenizer {path} has no token {token}.", allowed=f"one with {PAD}, {BEGIN} and {END}")
    if tokenizer.token_to_id(PAD) != PAD_ID:
        raise DataError(
            f"{PAD} is not token {PAD_ID} of the tokenizer {path}.",
            received=tokenizer.token_to_id(PAD),
            allowed=PAD_ID,
            remedy="Zeros pad every sequence; use a tokenizer whose vocabulary begins with [PAD].",
        )
    return tokenizer


def train_tokenizer(texts: Sequence[str], vocabulary: int) -> Any:
    """Returns a lower-casing WordPiece with a vocabulary made from `texts`, the same each time.

    The library's trainer gives the characters that go on within a word ("##e") their ids in the order of a hash table
    with a random seed, and breaks ties by ids; so all of them are named to it beforehand, sorted.

    Args:
        texts: The training texts.
        vocabulary: The most tokens; fewer when the texts do not give more.
    """
    from tokenizers.trainers import WordPieceTrainer

    drafted = _word_piece({token: number for number, token in enumerate(SPECIAL)}, lowercase=True)
    counts: Counter[str] = Counter()
    for text in texts:
        for word, _ in drafted.pre_tokenizer.pre_tokenize_str(drafted.normalizer.normalize_str(text)):
            counts.update(word)
    frequent = sorted(counts, key=lambda character: (-counts[character], character))[: (vocabulary - len(SPECIAL)) // 4]
    alphabet = sorted(frequent)
    trainer = WordPieceTrainer(
        vocab_size=vocabulary,
        special_tokens=[*SPECIAL, *(f"##{character}" for character in alphabet)],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    drafted.train_from_iterator(texts, trainer)
    return _word_piece(drafted.get_vocab(with_added_tokens=True), lowercase=True)


def encode(tokenizer: Any, texts: Sequence[str], length: int) -> npt.NDArray[np.int32]:
    """Returns the ids of texts, int32 (N, length): [CLS], the text's, cut to fit, [SEP], then zeros."""
    begin, end = tokenizer.token_to_id(BEGIN), tokenizer.token_to_id(END)
    out = np.full((len(texts), length), PAD_ID, dtype=np.int32)
    for row, encoding in zip(out, tokenizer.encode_batch(list(texts), add_special_tokens=False), strict=True):
        ids = [begin, *encoding.ids[: length - 2], end]
        row[: len(ids)] = ids
    return out


def _word_piece(vocabulary: dict[str, int], lowercase: bool) -> Any:
    """Returns BERT's tokenizer with a vocabulary."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer
