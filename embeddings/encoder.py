"""What an encoder is: the one interface behind which models and backends are exchanged."""

from collections.abc import Generator, Sequence
from itertools import accumulate
from typing import Protocol

import numpy as np

from embeddings.errors import InvalidText
from embeddings.fingerprint import Fingerprint
from embeddings.vectors import Vectors, require_unit_rows
from embeddings.windows import Window, padded_batches

DEFAULT_BATCH_TOKENS = 512
_TEXTS_PER_STEP = 16


class Encoder(Protocol):
    """Texts to unit vectors. May be called from any thread; calls are carried out one after another."""

    @property
    def fingerprint(self) -> Fingerprint:
        """What its vectors depend on; constant for the life of the encoder."""
        ...

    def windows(self, text: str) -> tuple[Window, ...]:
        """The windows of a passage: together they cover it; none where there is nothing to read.

        Raises:
            InvalidText: the text holds a lone surrogate.
        """
        ...

    def encode_windows(self, windows: Sequence[Window]) -> Vectors:
        """`(len(windows), dimension)` unit rows, in order; the passage prompt is put in front.

        Raises:
            EncodingFailed: the model failed or returned what is no unit vector.
        """
        ...

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """`(len(texts), dimension)` unit rows, in order; the query prompt is put in front.

        A query longer than the token limit is read up to the limit.

        Raises:
            InvalidText: a text has no token, or holds a lone surrogate.
            EncodingFailed: the model failed or returned what is no unit vector.
        """
        ...


def encode_passages(
    encoder: Encoder, texts: Sequence[str], batch_tokens: int = DEFAULT_BATCH_TOKENS
) -> list[Vectors]:
    """For each text its windows' vectors, `(windows, dimension)`; `(0, dimension)` for an empty text."""
    steps = passage_steps(encoder, texts, batch_tokens)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: list[Vectors] = done.value
            return result


def passage_steps(
    encoder: Encoder, texts: Sequence[str], batch_tokens: int
) -> Generator[int, None, list[Vectors]]:
    """`encode_passages` in small steps, so that something more urgent can run in between.

    Yields the number of windows encoded in the step. Windows of one padded length share a batch of up to
    `batch_tokens` tokens, whatever text they are from.

    Raises:
        InvalidText, EncodingFailed: see `Encoder`.
    """
    plan: list[tuple[Window, ...]] = []
    for number, text in enumerate(texts, start=1):
        plan.append(encoder.windows(text))
        if number % _TEXTS_PER_STEP == 0:
            yield 0
    flat = [window for windows in plan for window in windows]
    rows = np.empty((len(flat), encoder.fingerprint.dimension), dtype=np.float32)
    for batch in padded_batches([window.tokens for window in flat], batch_tokens):
        encoded = encoder.encode_windows([flat[index] for index in batch])
        rows[batch] = require_unit_rows(encoded, count=len(batch), dimension=rows.shape[1])
        yield len(batch)
    ends = list(accumulate(len(windows) for windows in plan))
    return [rows[end - len(windows) : end].copy() for windows, end in zip(plan, ends, strict=True)]


def require_encodable(text: str) -> None:
    """Accept what tokenizers accept.

    Raises:
        InvalidText: the text holds a lone surrogate, which is no character.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidText("the text holds a lone surrogate") from error
