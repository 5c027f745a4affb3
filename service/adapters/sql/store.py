"""The authoritative store and its change feed on SQLAlchemy. Implements Store, ChangeFeed and LinkStore."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from sqlalchemy import func, select, update

from service.adapters.sql import rows, schema
from service.adapters.sql.engine import Engines, begin
from service.adapters.sql.glance import GlanceReader
from service.adapters.sql.history import nonce_at, stretch
from service.adapters.sql.live_rows import LIVE, LiveRows
from service.adapters.sql.snapshot import SqlSnapshot
from service.adapters.sql.transaction import SqlTransaction, lock_counters
from service.model import ChangeKind, ContentType, ItemId, SourceType, Workspace
from service.ports.store import Change, Glance, IndexablePassage, IngestMark, LogStretch, PassageKey

_STRETCH = stretch()


class SqlStore:
    """Snapshots, transactions and the change log of one database."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self.engines = engines
        self._glances = GlanceReader(engines.glance)
        self._live = LiveRows(engines.read.dialect)

    async def glance(
        self, workspace: Workspace, keys: Sequence[int], content_type: ContentType | None
    ) -> Glance | None:
        """The live scorable passages among `keys` and the sequence number, in one statement."""
        return await self._glances.read(workspace, keys, content_type)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[SqlSnapshot]:
        """A consistent view, closed on exit. Raises StoreUnavailable."""
        async with begin(self._engines.read) as connection:
            seq, nonce = await self._live.moment(connection)
            yield SqlSnapshot(connection, seq, nonce, self._live)

    @asynccontextmanager
    async def transaction(self, workspace: Workspace) -> AsyncIterator[SqlTransaction]:
        """A write: committed on a clean exit, rolled back on an exception. Raises StoreUnavailable."""
        async with begin(self._engines.write) as connection:
            transaction = SqlTransaction(connection, workspace, await lock_counters(connection), self._live)
            yield transaction
            await transaction.flush()

    async def ingest_marks(
        self, workspace: Workspace, name_hashes: Sequence[str]
    ) -> Mapping[str, IngestMark]:
        """What earlier ingests have read."""
        table = schema.ingest_progress
        statement = select(table).where(table.c.workspace == workspace, table.c.name_hash.in_(name_hashes))
        async with begin(self._engines.read) as connection:
            found = (await connection.execute(statement)).all()
        return {
            row.name_hash: IngestMark(
                row.name_hash,
                row.digest,
                row.done,
                row.finished,
                None if row.item_id is None else ItemId(row.item_id),
            )
            for row in found
        }

    async def head(self) -> int:
        """The newest committed sequence number."""
        async with begin(self._engines.feed) as connection:
            return int((await connection.execute(select(schema.counter.c.seq))).scalar_one())

    async def behind(self, workspace: Workspace, seq: int) -> int:
        """How many of the workspace's own changes come after a sequence number."""
        log = schema.change_log.c
        statement = select(func.count()).where(log.workspace == workspace, log.seq > seq)
        async with begin(self._engines.feed) as connection:
            return int((await connection.execute(statement)).scalar_one())

    async def database_id(self) -> str:
        """A name that no other database has."""
        async with begin(self._engines.feed) as connection:
            return str((await connection.execute(select(schema.counter.c.database_id))).scalar_one())

    async def nonce(self, seq: int) -> int:
        """Which history a sequence number belongs to in this database."""
        async with begin(self._engines.feed) as connection:
            return int((await connection.execute(select(nonce_at(seq)))).scalar_one())

    async def workspaces(self) -> Sequence[Workspace]:
        """Every workspace that the log knows."""
        statement = select(schema.change_log.c.workspace).distinct().order_by(schema.change_log.c.workspace)
        async with begin(self._engines.feed) as connection:
            return [Workspace(name) for name in (await connection.execute(statement)).scalars()]

    async def recent_workspaces(self, limit: int) -> Sequence[Workspace]:
        """The workspaces that were changed last, the newest change first."""
        log = schema.change_log.c
        statement = (
            select(log.workspace).group_by(log.workspace).order_by(func.max(log.seq).desc()).limit(limit)
        )
        async with begin(self._engines.feed) as connection:
            return [Workspace(name) for name in (await connection.execute(statement)).scalars()]

    async def changes(self, workspace: Workspace, after: int, limit: int) -> Sequence[Change]:
        """The workspace's next entries after a sequence number, in order."""
        log = schema.change_log.c
        statement = (
            select(log.seq, log.kind, log.item_key)
            .where(log.workspace == workspace, log.seq > after)
            .order_by(log.seq)
            .limit(limit)
        )
        async with begin(self._engines.feed) as connection:
            found = (await connection.execute(statement)).all()
        return [Change(row.seq, ChangeKind(row.kind), row.item_key) for row in found]

    async def stretch(self, workspace: Workspace, after: int, until: int, limit: int) -> LogStretch:
        """The workspace's first entries between two numbers, and which history the numbers belong to."""
        asked = {"workspace": workspace, "after": after, "until": until, "most": limit}
        async with begin(self._engines.feed) as connection:
            rows_found = (await connection.execute(_STRETCH, asked)).all()
        first, entries = rows_found[0], [row for row in rows_found if row.seq is not None]
        changes = [Change(row.seq, ChangeKind(row.kind), row.item_key) for row in entries]
        if len(entries) == limit:
            return LogStretch(first.head, first.before, changes, entries[-1].seq, entries[-1].nonce)
        return LogStretch(first.head, first.before, changes, until, first.at_end)

    async def indexable(
        self, item_keys: Sequence[int], after: PassageKey | None, limit: int
    ) -> Sequence[tuple[int, IndexablePassage]]:
        """The next scorable passages of the items, stale or not, in passage key order."""
        statement = (
            select(schema.passages.c.item_key, *rows.INDEXABLE_COLUMNS)
            .select_from(schema.passages.join(schema.items))
            .where(schema.passages.c.item_key.in_(item_keys), schema.passages.c.scorable)
            .order_by(schema.passages.c.passage_key)
            .limit(limit)
        )
        if after is not None:
            statement = statement.where(schema.passages.c.passage_key > after)
        async with begin(self._engines.feed) as connection:
            found = (await connection.execute(statement)).all()
        return [(row.item_key, rows.indexable(row)) for row in found]

    async def live_urls(self, workspace: Workspace) -> Sequence[str]:
        """The distinct source URLs of live items, sorted."""
        statement = (
            select(schema.items.c.source_url)
            .where(
                schema.items.c.workspace == workspace,
                LIVE,
                schema.items.c.source_type == SourceType.URL.value,
            )
            .distinct()
            .order_by(schema.items.c.source_url)
        )
        async with begin(self._engines.read) as connection:
            return [url for url in (await connection.execute(statement)).scalars() if url is not None]

    async def set_url_ok(self, workspace: Workspace, url: str, ok: bool | None) -> int:  # noqa: FBT001 - the port's
        """Store the liveness of a source URL on its live items; how many rows it changed."""
        statement = (
            update(schema.items)
            .where(
                schema.items.c.workspace == workspace,
                schema.items.c.source_url == url,
                LIVE,
                schema.items.c.source_url_ok.is_distinct_from(ok),
            )
            .values(source_url_ok=ok)
        )
        async with begin(self._engines.write) as connection:
            return (await connection.execute(statement)).rowcount
