"""Vectors of texts that were encoded before. Implements EmbeddingCache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite

from service.adapters.sql import schema
from service.adapters.sql.engine import Engines, begin

if TYPE_CHECKING:
    from service.ports.vectors import Float32Array

_TABLE = schema.embedding_cache


class SqlEmbeddingCache:
    """One row a model and text: all windows' vectors, as float32 or float16.

    float16 halves the rows. A vector that was read back stands at a cosine of 0.999999 or more to the one that
    was encoded: each component is rounded by at most 2⁻¹¹ of itself, and the length is made one again.
    """

    def __init__(self, engines: Engines, dtype: str) -> None:
        self._engines = engines
        self._dtype = dtype
        postgres = engines.write.dialect.name == "postgresql"
        self._insert = postgresql.insert if postgres else sqlite.insert

    async def cached(self, fingerprint: str, text_hashes: Sequence[str]) -> Mapping[str, Float32Array]:
        """The vectors of those texts, (windows, dimension) each; what is damaged is absent."""
        statement = select(_TABLE.c.text_hash, _TABLE.c.windows, _TABLE.c.dtype, _TABLE.c.vectors).where(
            _TABLE.c.fingerprint == fingerprint, _TABLE.c.text_hash.in_(set(text_hashes))
        )
        async with begin(self._engines.read) as connection:
            found = (await connection.execute(statement)).all()
        read = ((row.text_hash, _unit_rows(row.vectors, row.dtype, row.windows)) for row in found)
        return {text_hash: rows for text_hash, rows in read if rows is not None}

    async def cached_windows(self, fingerprint: str, text_hashes: Sequence[str]) -> Mapping[str, int]:
        """Only how many windows each of those texts has."""
        statement = select(_TABLE.c.text_hash, _TABLE.c.windows).where(
            _TABLE.c.fingerprint == fingerprint, _TABLE.c.text_hash.in_(set(text_hashes))
        )
        async with begin(self._engines.read) as connection:
            return {row.text_hash: row.windows for row in (await connection.execute(statement)).all()}

    async def cache(self, fingerprint: str, vectors: Mapping[str, Float32Array]) -> None:
        """Keep vectors by text hash, in the place of what was kept of the same texts."""
        if not vectors:
            return
        values = [
            {
                "fingerprint": fingerprint,
                "text_hash": key,
                "windows": rows.shape[0],
                "dtype": self._dtype,
                "vectors": rows.astype(self._dtype).tobytes(),
            }
            for key, rows in vectors.items()
        ]
        insert = self._insert(_TABLE)
        kept = {name: insert.excluded[name] for name in ("windows", "dtype", "vectors")}
        statement = insert.on_conflict_do_update(index_elements=["fingerprint", "text_hash"], set_=kept)
        async with begin(self._engines.write) as connection:
            await connection.execute(statement, values)

    async def cached_fingerprints(self) -> Sequence[str]:
        """Every model that has vectors kept, ascending; a look at the index for each."""
        found: list[str] = []
        async with begin(self._engines.read) as connection:
            while True:
                statement = select(_TABLE.c.fingerprint).order_by(_TABLE.c.fingerprint).limit(1)
                if found:
                    statement = statement.where(_TABLE.c.fingerprint > found[-1])
                following = (await connection.execute(statement)).scalar_one_or_none()
                if following is None:
                    return found
                found.append(following)

    async def cached_hashes(self, fingerprint: str, after: str, limit: int) -> Sequence[str]:
        """The first `limit` hashes of a model's texts greater than `after`, ascending."""
        statement = (
            select(_TABLE.c.text_hash)
            .where(_TABLE.c.fingerprint == fingerprint, _TABLE.c.text_hash > after)
            .order_by(_TABLE.c.text_hash)
            .limit(limit)
        )
        async with begin(self._engines.read) as connection:
            return (await connection.execute(statement)).scalars().all()

    async def uncache(self, fingerprint: str, text_hashes: Sequence[str]) -> None:
        """Keep these no longer; unknown ones are no error."""
        async with begin(self._engines.write) as connection:
            await connection.execute(
                delete(_TABLE).where(_TABLE.c.fingerprint == fingerprint, _TABLE.c.text_hash.in_(text_hashes))
            )


def _unit_rows(kept: bytes, dtype: str, windows: int) -> Float32Array | None:
    """Float32 rows of unit length again, which float16 keeps only nearly; None where they are damaged.

    Without windows (0, 0): nothing tells the dimension, and nobody asks for a row's.
    """
    if not windows:
        return np.empty((0, 0), np.float32)
    if len(kept) % (windows * np.dtype(dtype).itemsize):
        return None
    widened = np.frombuffer(kept, dtype).reshape(windows, -1).astype(np.float32)
    lengths = np.linalg.norm(widened, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and lengths.all()):
        return None
    unit: Float32Array = widened / lengths
    return unit
