"""An encoder that keeps what it encoded, across instances and runs, and counts what it cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from service.core.embedding_text import text_hash
from service.model import Workspace
from service.ports.embedding import Encoder, EncoderState, VectorLedger

if TYPE_CHECKING:
    from service.ports.vectors import Float32Array


@dataclass(slots=True)
class EncodingCost:
    """What encoding took. `query_seconds` holds one entry a distinct query, waiting included."""

    encoded: int = 0
    from_cache: int = 0
    seconds: float = 0.0
    query_seconds: list[float] = field(default_factory=list)


class CachingEncoder:
    """Passages come from a ledger's cache where it has them. Implements Encoder."""

    def __init__(self, inner: Encoder, cache: VectorLedger) -> None:
        self._inner = inner
        self._cache = cache
        self.cost = EncodingCost()
        self._asked: set[str] = set()

    @property
    def state(self) -> EncoderState:
        """The inner encoder's."""
        return self._inner.state

    @property
    def failure(self) -> str | None:
        """The inner encoder's."""
        return self._inner.failure

    @property
    def fingerprint(self) -> str:
        """The inner encoder's: a kept vector is the one it would give."""
        return self._inner.fingerprint

    @property
    def dimension(self) -> int:
        """The inner encoder's."""
        return self._inner.dimension

    async def encode_query(self, text: str, workspace: Workspace) -> Float32Array:
        """A (dimension,) float32 unit vector. Raises EncoderFailed."""
        began = time.perf_counter()
        vector = await self._inner.encode_query(text, workspace)
        if text not in self._asked:  # later calls find it in the encoder's memory
            self._asked.add(text)
            self.cost.query_seconds.append(time.perf_counter() - began)
        return vector

    async def encode_passages(self, texts: Sequence[str]) -> Sequence[Float32Array]:
        """Per text its windows, (windows, dimension) float32 unit rows. Raises EncoderFailed."""
        hashes = [text_hash(text) for text in texts]
        vectors = dict(await self._cache.cached(self.fingerprint, hashes))
        self.cost.from_cache += sum(one in vectors for one in hashes)
        missing = {one: text for one, text in zip(hashes, texts, strict=True) if one not in vectors}
        if missing:
            began = time.perf_counter()
            rows = await self._inner.encode_passages(list(missing.values()))
            self.cost.seconds += time.perf_counter() - began
            self.cost.encoded += len(missing)
            fresh = dict(zip(missing, rows, strict=True))
            await self._cache.cache(self.fingerprint, fresh)
            vectors.update(fresh)
        return [vectors[one] for one in hashes]
