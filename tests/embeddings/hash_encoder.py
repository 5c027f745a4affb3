"""A real encoder without a model: hashed words, summed. Deterministic, instant, and it can be made to fail."""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from embeddings.encoder import require_encodable
from embeddings.errors import InvalidText
from embeddings.fingerprint import Fingerprint
from embeddings.vectors import Vectors, unit_rows
from embeddings.windows import Offsets, Window, Windower

_WORD = re.compile(r"\S+")
DIMENSION = 64
TOKEN_LIMIT = 24


def word_offsets(text: str) -> Offsets:
    """One token a word."""
    return [match.span() for match in _WORD.finditer(text)]


def hash_fingerprint(name: str = "hash") -> Fingerprint:
    """The fingerprint of a hash encoder."""
    return Fingerprint(
        name=name,
        revision="sha256:0",
        dimension=DIMENSION,
        pooling="sum",
        normalisation="l2",
        query_prompt="query ",
        passage_prompt="",
        token_limit=TOKEN_LIMIT,
        window_overlap=4,
        precision="fp32",
    )


def _nothing(texts: Sequence[str]) -> None:
    """The default of `before`: no fault."""


def _unharmed(rows: Vectors) -> Vectors:
    """The default of `damage`."""
    return rows


@dataclass(frozen=True, slots=True)
class HashEncoder:
    """Meets the contract of `Encoder`.

    `before` runs in the worker's thread ahead of every encoding and may raise or block; `damage` may change
    what is returned.
    """

    fingerprint: Fingerprint = field(default_factory=hash_fingerprint)
    before: Callable[[Sequence[str]], None] = _nothing
    damage: Callable[[Vectors], Vectors] = _unharmed

    def windows(self, text: str) -> tuple[Window, ...]:
        """Windows of up to `TOKEN_LIMIT` words."""
        require_encodable(text)
        return Windower(word_offsets, TOKEN_LIMIT, 4).split(text)

    def encode_windows(self, windows: Sequence[Window]) -> Vectors:
        """One row a window."""
        return self._encode([window.text for window in windows], self.fingerprint.passage_prompt)

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """One row a text."""
        for text in texts:
            require_encodable(text)
            if not word_offsets(text):
                raise InvalidText("nothing to read")
        return self._encode(texts, self.fingerprint.query_prompt)

    def _encode(self, texts: Sequence[str], prompt: str) -> Vectors:
        self.before(texts)
        rows = np.zeros((len(texts), DIMENSION))
        for row, text in zip(rows, texts, strict=True):
            for word in (prompt + text).split()[: TOKEN_LIMIT + len(prompt.split())] or [""]:
                digest = hashlib.blake2b(word.lower().encode(), digest_size=DIMENSION).digest()
                row += np.frombuffer(digest, np.uint8).astype(np.float64) - 127.5
        return self.damage(unit_rows(rows, rows=len(texts), dimension=DIMENSION))
