"""A loaded sentence-transformers model, run so that no text's vector depends on what it is encoded with."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from embeddings.errors import EncodingFailed
from embeddings.query_cache import Role
from embeddings.token_offsets import TokenReader
from embeddings.torch_threads import torch_threads
from embeddings.windows import PADDING, padded_length

# What the library and those below it raise while encoding; a failed allocation is a RuntimeError of torch's.
_ENCODE_ERRORS = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, MemoryError)


@dataclass(frozen=True, slots=True)
class ModelRunner:
    """`limit` is the tokens the model reads of a text, a multiple of `PADDING`, or None for all of them.

    Texts share a batch only when they are padded to the same length, and that length is a text's own: sums
    then run in the same order whether it is encoded alone or with others, to the last bit. The lock is there
    because the tokenizers below keep state between calls.
    """

    model: SentenceTransformer
    reader: TokenReader
    limit: int | None
    threads: int
    lock: threading.Lock = field(default_factory=threading.Lock)

    def encode(self, texts: Sequence[str], role: Role, prompt: str) -> NDArray[np.floating]:
        """`(len(texts), dimension)` as the model gives it, in order; at least one text.

        Raises:
            EncodingFailed: the library raised.
        """
        with self.turn():
            groups = self._groups(texts, prompt)
            parts = [self._encode_alike([texts[n] for n in group], role, prompt) for group in groups]
        together = np.concatenate(parts)
        order = np.concatenate([np.asarray(group) for group in groups])
        ordered = np.empty_like(together)
        ordered[order] = together
        return ordered

    def count_tokens(self, text: str) -> int:
        """Tokens of the text, without prompt and special tokens, before any cut."""
        with self.turn():
            return len(self.reader.offsets(text))

    def _groups(self, texts: Sequence[str], prompt: str) -> list[list[int]]:
        """Indices of texts that are padded to one length, shortest first."""
        if self.limit is None:
            return [list(range(len(texts)))]
        groups: dict[int, list[int]] = {}
        for number, text in enumerate(texts):
            tokens = len(self.reader.offsets(prompt + text)) + self.reader.specials
            groups.setdefault(padded_length(min(tokens, self.limit)), []).append(number)
        return [groups[length] for length in sorted(groups)]

    def _encode_alike(self, texts: list[str], role: Role, prompt: str) -> NDArray[np.floating]:
        encode = self.model.encode_query if role is Role.QUERY else self.model.encode_document
        padding = {} if self.limit is None else {"text": {"pad_to_multiple_of": PADDING}}
        raw = encode(
            texts, prompt=prompt, batch_size=len(texts), show_progress_bar=False, processing_kwargs=padding
        )
        return np.asarray(raw)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One caller at a time, on the settings' threads; the library's errors become ours."""
        with self.lock, torch_threads(self.threads):
            try:
                yield
            except _ENCODE_ERRORS as error:
                raise EncodingFailed(f"the model failed while encoding ({type(error).__name__})") from error
