"""The SQL side of the vector index. Implements VectorLedger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
from sqlalchemy import and_, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from service.adapters.sql import schema
from service.adapters.sql.engine import Engines, begin
from service.adapters.sql.live_rows import JOINED, LIVE
from service.core.embedding_text import embedding_text, text_hash
from service.core.staleness import is_stale
from service.model import ChangeKind, ContentType, ItemId, Workspace
from service.ports.embedding import CollectionRole, Embeddable, KnownCollection, Parked, Progress
from service.ports.vectors import CollectionName

if TYPE_CHECKING:
    from service.ports.vectors import Float32Array

_ITEM_KINDS = (ChangeKind.ITEM_ADDED.value, ChangeKind.ITEM_STALE.value)


class SqlVectorLedger:
    """Reads the log across workspaces and keeps what the worker must remember.

    `cache_dtype` is float32 or float16; float16 halves the cache and costs at most 5e-4 of a component.
    """

    def __init__(self, engines: Engines, cache_dtype: str) -> None:
        self._engines = engines
        self._dtype = cache_dtype
        postgres = engines.write.dialect.name == "postgresql"
        self._upsert = postgresql.insert if postgres else sqlite.insert

    async def head(self) -> int:
        """The newest committed sequence number."""
        async with begin(self._engines.read) as connection:
            return int((await connection.execute(select(schema.counter.c.seq))).scalar_one())

    async def lag_seconds(self, after: int) -> float:
        """The age of the oldest log entry after a sequence number; 0 when there is none."""
        log = schema.change_log.c
        statement = select(log.at).where(log.seq > after).order_by(log.seq).limit(1)
        async with begin(self._engines.read) as connection:
            oldest = (await connection.execute(statement)).scalar_one_or_none()
        return 0.0 if oldest is None else max(0.0, (datetime.now(UTC) - oldest).total_seconds())

    async def item_changes(self, after: int, limit: int) -> tuple[Sequence[int], int]:
        """The items that the next `limit` log entries speak of, and the last entry's number."""
        log = schema.change_log.c
        statement = (
            select(log.seq, log.kind, log.item_key).where(log.seq > after).order_by(log.seq).limit(limit)
        )
        async with begin(self._engines.read) as connection:
            found = (await connection.execute(statement)).all()
        keys = {row.item_key for row in found if row.kind in _ITEM_KINDS and row.item_key is not None}
        return sorted(keys), found[-1].seq if found else after

    async def embeddable(
        self, item_keys: Sequence[int] | None, after: int | None, limit: int
    ) -> Sequence[Embeddable]:
        """The next scorable passages of the items, or of all live items, in passage key order."""
        statement = (
            select(
                schema.passages.c.passage_key,
                schema.passages.c.seq,
                schema.passages.c.heading,
                schema.passages.c.text,
                schema.items.c.workspace,
                schema.items.c.item_id,
                schema.items.c.title,
                schema.items.c.content_type,
                schema.items.c.retired_at,
                schema.items.c.superseded_by,
            )
            .select_from(JOINED)
            .where(schema.passages.c.scorable)
            .order_by(schema.passages.c.passage_key)
            .limit(limit)
        )
        if item_keys is not None:
            statement = statement.where(schema.passages.c.item_key.in_(item_keys))
        else:
            statement = statement.where(LIVE)
        if after is not None:
            statement = statement.where(schema.passages.c.passage_key > after)
        async with begin(self._engines.read) as connection:
            found = (await connection.execute(statement)).all()
        passages = []
        for row in found:
            text = embedding_text(row.title, row.heading, row.text)
            passages.append(
                Embeddable(
                    passage_key=row.passage_key,
                    workspace=Workspace(row.workspace),
                    item_id=ItemId(row.item_id),
                    seq=row.seq,
                    content_type=ContentType(row.content_type),
                    live=not is_stale(row.retired_at, row.superseded_by),
                    text=text,
                    text_hash=text_hash(text),
                )
            )
        return passages

    async def cached(self, fingerprint: str, text_hashes: Sequence[str]) -> Mapping[str, Float32Array]:
        """The vectors of texts that were encoded before, (windows, dimension) each."""
        cache = schema.embedding_cache.c
        statement = select(cache.text_hash, cache.windows, cache.dtype, cache.vectors).where(
            cache.fingerprint == fingerprint, cache.text_hash.in_(set(text_hashes))
        )
        async with begin(self._engines.read) as connection:
            found = (await connection.execute(statement)).all()
        return {
            row.text_hash: _unit(np.frombuffer(row.vectors, row.dtype).reshape(row.windows, -1))
            for row in found
        }

    async def cached_windows(self, fingerprint: str, text_hashes: Sequence[str]) -> Mapping[str, int]:
        """Only how many windows each of those texts has."""
        cache = schema.embedding_cache.c
        statement = select(cache.text_hash, cache.windows).where(
            cache.fingerprint == fingerprint, cache.text_hash.in_(set(text_hashes))
        )
        async with begin(self._engines.read) as connection:
            return {row.text_hash: row.windows for row in (await connection.execute(statement)).all()}

    async def cache(self, fingerprint: str, vectors: Mapping[str, Float32Array]) -> None:
        """Keep vectors by text hash; a text that is cached already is left alone."""
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
        async with begin(self._engines.write) as connection:
            await connection.execute(self._upsert(schema.embedding_cache).on_conflict_do_nothing(), values)

    async def progress(self, collection: CollectionName) -> Progress | None:
        """How far the collection is."""
        table = schema.vector_progress.c
        statement = select(table.incarnation, table.seq, table.at).where(table.collection == collection)
        async with begin(self._engines.read) as connection:
            row = (await connection.execute(statement)).first()
        return None if row is None else Progress(row.incarnation, row.seq, row.at)

    async def save_progress(self, collection: CollectionName, incarnation: str, seq: int) -> None:
        """Remember how far the collection is."""
        values = {"incarnation": incarnation, "seq": seq, "at": datetime.now(UTC)}
        statement = self._upsert(schema.vector_progress).values(collection=collection, **values)
        async with begin(self._engines.write) as connection:
            await connection.execute(
                statement.on_conflict_do_update(index_elements=["collection"], set_=values)
            )

    async def collections(self) -> Sequence[KnownCollection]:
        """Every collection, oldest first."""
        table = schema.vector_collections
        statement = select(table).order_by(table.c.created_at, table.c.name)
        # Reads wait for this with a snapshot in hand: it must never wait for the connections that they hold.
        async with begin(self._engines.glance) as connection:
            found = (await connection.execute(statement)).all()
        return [
            KnownCollection(
                CollectionName(row.name),
                row.fingerprint,
                row.model,
                row.dimension,
                CollectionRole(row.role),
                row.created_at,
            )
            for row in found
        ]

    async def register(self, collection: KnownCollection) -> None:
        """Add a collection; known names are left alone."""
        values = {
            "name": collection.name,
            "fingerprint": collection.fingerprint,
            "model": collection.model,
            "dimension": collection.dimension,
            "role": collection.role.value,
            "created_at": collection.created_at,
        }
        statement = self._upsert(schema.vector_collections).values(**values).on_conflict_do_nothing()
        async with begin(self._engines.write) as connection:
            await connection.execute(statement)

    async def activate(self, collection: CollectionName) -> None:
        """Make it the active one and retire the one that was, in one transaction."""
        table = schema.vector_collections
        active = CollectionRole.ACTIVE.value
        async with begin(self._engines.write) as connection:
            await connection.execute(
                update(table)
                .where(table.c.role == active, table.c.name != collection)
                .values(role=CollectionRole.RETIRED.value)
            )
            await connection.execute(update(table).where(table.c.name == collection).values(role=active))

    async def forget(self, collection: CollectionName) -> None:
        """Remove a collection, its progress and its parked passages."""
        async with begin(self._engines.write) as connection:
            for table, column in (
                (schema.vector_parked, schema.vector_parked.c.collection),
                (schema.vector_progress, schema.vector_progress.c.collection),
                (schema.vector_collections, schema.vector_collections.c.name),
            ):
                await connection.execute(delete(table).where(column == collection))

    async def park(self, collection: CollectionName, passage: Embeddable, reason: str) -> None:
        """Set a passage aside, or count another attempt."""
        table = schema.vector_parked
        now = datetime.now(UTC)
        statement = self._upsert(table).values(
            collection=collection, passage_key=passage.passage_key, reason=reason[:500], attempts=1, at=now
        )
        async with begin(self._engines.write) as connection:
            await connection.execute(
                statement.on_conflict_do_update(
                    index_elements=["collection", "passage_key"],
                    set_={"reason": reason[:500], "attempts": table.c.attempts + 1, "at": now},
                )
            )

    async def unpark(self, collection: CollectionName, passage_keys: Sequence[int]) -> None:
        """These passages are no longer set aside."""
        table = schema.vector_parked.c
        async with begin(self._engines.write) as connection:
            await connection.execute(
                delete(schema.vector_parked).where(
                    table.collection == collection, table.passage_key.in_(passage_keys)
                )
            )

    async def parked(self, collection: CollectionName, limit: int) -> Sequence[Parked]:
        """Passages that are set aside, by key."""
        table = schema.vector_parked
        statement = (
            select(
                table.c.passage_key,
                table.c.reason,
                table.c.attempts,
                schema.items.c.workspace,
                schema.items.c.item_id,
                schema.passages.c.seq,
            )
            .select_from(
                table.join(schema.passages, schema.passages.c.passage_key == table.c.passage_key).join(
                    schema.items, schema.items.c.item_key == schema.passages.c.item_key
                )
            )
            .where(table.c.collection == collection)
            .order_by(table.c.passage_key)
            .limit(limit)
        )
        async with begin(self._engines.read) as connection:
            found = (await connection.execute(statement)).all()
        return [
            Parked(
                row.passage_key,
                Workspace(row.workspace),
                ItemId(row.item_id),
                row.seq,
                row.reason,
                row.attempts,
            )
            for row in found
        ]

    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        """Take or renew the right to do a named work alone."""
        now = datetime.now(UTC)
        until = now + timedelta(seconds=seconds)
        table = schema.leases
        statement = self._upsert(table).values(name=name, owner=owner, until=until)
        taken = statement.on_conflict_do_update(
            index_elements=["name"],
            set_={"owner": owner, "until": until},
            where=(table.c.owner == owner) | (table.c.until < now),
        )
        async with begin(self._engines.write) as connection:
            await connection.execute(taken)
            found = await connection.execute(select(table.c.owner).where(table.c.name == name))
            return bool(found.scalar_one() == owner)

    async def release(self, name: str, owner: str) -> None:
        """Give it back."""
        table = schema.leases.c
        async with begin(self._engines.write) as connection:
            await connection.execute(
                delete(schema.leases).where(and_(table.name == name, table.owner == owner))
            )


def _unit(rows: Float32Array) -> Float32Array:
    """Rows as float32 of unit length again, which float16 keeps only nearly."""
    widened = rows.astype(np.float32)
    unit: Float32Array = widened / np.linalg.norm(widened, axis=1, keepdims=True)
    return unit
