"""The SQL side of the vector index. Implements VectorLedger."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import delete, select, update

from service.adapters.sql import schema
from service.adapters.sql.embedding_cache import SqlEmbeddingCache
from service.adapters.sql.engine import Engines, begin
from service.adapters.sql.history import LogReader
from service.adapters.sql.leases import SqlLeases
from service.adapters.sql.live_rows import JOINED, LIVE
from service.adapters.sql.parking import SqlParking
from service.core.embedding_text import TEXT_RULES, embedding_text, marked, text_hash, unmarked
from service.core.staleness import is_stale
from service.model import ChangeKind, ContentType, ItemId, Workspace
from service.ports.embedding import CollectionRole, Embeddable, KnownCollection, Progress
from service.ports.vectors import CollectionName

FORGOTTEN_AT_ONCE = 500  # cached texts a transaction
_ITEM_KINDS = (ChangeKind.ITEM_ADDED.value, ChangeKind.ITEM_STALE.value)


class SqlVectorLedger(SqlEmbeddingCache, SqlParking, SqlLeases):
    """Reads the log across workspaces and keeps what the worker must remember.

    `cache_dtype` is float32 or float16. A collection that was filled by other `text_rules` is followed from the
    log's beginning again, in place and while it serves: the vectors are of one model before and after.
    """

    def __init__(self, engines: Engines, cache_dtype: str, text_rules: int = TEXT_RULES) -> None:
        SqlEmbeddingCache.__init__(self, engines, cache_dtype)
        SqlLeases.__init__(self, engines)
        self._rules = text_rules
        self._log = LogReader()

    @property
    def forks(self) -> int:
        """How often the log was found to tell another history than was read from it."""
        return self._log.forks

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
            select(log.seq, log.kind, log.item_key, log.nonce)
            .where(log.seq > after)
            .order_by(log.seq)
            .limit(limit)
        )
        async with begin(self._engines.read) as connection:
            found = (await connection.execute(statement)).all()
        if found:
            self._log.note(found[-1].seq, found[-1].nonce)
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

    async def progress(self, collection: CollectionName) -> Progress | None:
        """How far the collection is; at the beginning where the log does not tell what was followed any more."""
        table = schema.vector_progress.c
        columns = (table.incarnation, table.seq, table.at, table.nonce)
        statement = select(*columns).where(table.collection == collection)
        async with begin(self._engines.read) as connection:
            row = (await connection.execute(statement)).first()
            told = await self._log.look(connection, 0 if row is None else row.seq)
        if row is None:
            return None
        incarnation, rules = unmarked(row.incarnation)
        return Progress(incarnation, row.seq if (rules, row.nonce) == (self._rules, told) else 0, row.at)

    async def save_progress(self, collection: CollectionName, incarnation: str, seq: int) -> None:
        """Remember how far the collection is."""
        values = {
            "incarnation": marked(incarnation, self._rules),
            "seq": seq,
            "at": datetime.now(UTC),
            "nonce": self._log.nonce_at(seq),
        }
        statement = self._insert(schema.vector_progress).values(collection=collection, **values)
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
        statement = self._insert(schema.vector_collections).values(**values).on_conflict_do_nothing()
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
        """Remove a collection and what is kept for it; cached vectors only if no other is of its model."""
        tables = schema.vector_collections
        mine = select(tables.c.fingerprint).where(tables.c.name == collection)
        async with begin(self._engines.write) as connection:
            fingerprint = (await connection.execute(mine)).scalar_one_or_none()
            for table, column in (
                (schema.vector_parked, schema.vector_parked.c.collection),
                (schema.vector_progress, schema.vector_progress.c.collection),
                (schema.vector_collections, schema.vector_collections.c.name),
            ):
                await connection.execute(delete(table).where(column == collection))
        if fingerprint is not None and all(
            one.fingerprint != fingerprint for one in await self.collections()
        ):
            while some := await self.cached_hashes(fingerprint, "", FORGOTTEN_AT_ONCE):
                await self.uncache(fingerprint, some)
