"""Any sentence-transformers model as an `Encoder`."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from embeddings.encoder import require_encodable
from embeddings.errors import EncodingFailed, InvalidText
from embeddings.fingerprint import Fingerprint
from embeddings.torch_threads import torch_threads
from embeddings.vectors import Vectors, unit_rows
from embeddings.windows import Window, Windower

# What the library and those below it raise while encoding; a failed allocation is a RuntimeError of torch's.
_ENCODE_ERRORS = (RuntimeError, ValueError, TypeError, LookupError, AttributeError, MemoryError)


@dataclass(frozen=True, slots=True)
class SentenceTransformerEncoder:
    """A loaded model. The lock is there because the tokenizers below keep state between calls."""

    model: SentenceTransformer
    fingerprint: Fingerprint
    windower: Windower
    threads: int
    lock: threading.Lock = field(default_factory=threading.Lock)

    def windows(self, text: str) -> tuple[Window, ...]:
        """See `Encoder.windows`."""
        require_encodable(text)
        with self._turn():
            return self.windower.split(text)

    def encode_windows(self, windows: Sequence[Window]) -> Vectors:
        """See `Encoder.encode_windows`; one batch, so the caller decides its size."""
        texts = [window.text for window in windows]
        if not texts:
            return self._unit_rows(np.empty((0, self.fingerprint.dimension), np.float32), 0)
        with self._turn():
            raw = encode_documents(self.model, texts, self.fingerprint.passage_prompt)
        return self._unit_rows(raw, len(texts))

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """See `Encoder.encode_queries`; one batch, so the caller decides its size."""
        for text in texts:
            require_encodable(text)
        if not texts:
            return self._unit_rows(np.empty((0, self.fingerprint.dimension), np.float32), 0)
        with self._turn():
            if not all(self.windower.offsets(text) for text in texts):
                raise InvalidText("a query in which the model sees no token has no vector")
            raw = self.model.encode_query(
                list(texts),
                prompt=self.fingerprint.query_prompt,
                batch_size=len(texts),
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        return self._unit_rows(np.asarray(raw), len(texts))

    def _unit_rows(self, raw: NDArray[np.floating], count: int) -> Vectors:
        return unit_rows(raw, rows=count, dimension=self.fingerprint.dimension)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One caller at a time, on the settings' threads; the library's errors become ours."""
        with self.lock, torch_threads(self.threads):
            try:
                yield
            except _ENCODE_ERRORS as error:
                raise EncodingFailed(f"the model failed while encoding ({type(error).__name__})") from error


def encode_documents(model: SentenceTransformer, texts: list[str], prompt: str) -> NDArray[np.floating]:
    """`(len(texts), dimension)` as the model gives it, in one batch."""
    return np.asarray(
        model.encode_document(
            texts,
            prompt=prompt,
            batch_size=len(texts),
            show_progress_bar=False,
            convert_to_numpy=True,
        )
    )
