"""The database as a whole, to be read or filled. Implements Archive."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, select

from service.adapters.sql import migrate, schema
from service.adapters.sql.archive_restoration import SqlRestoration
from service.adapters.sql.archive_snapshot import SqlArchiveSnapshot
from service.adapters.sql.archive_tables import TABLES
from service.adapters.sql.engine import Engines, begin
from service.model import Workspace


class SqlArchive:
    """Snapshots to export and transactions to restore."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds of rows in the archive's order."""
        return [archived.kind for archived in TABLES]

    @property
    def schemas(self) -> Sequence[str]:
        """Every revision that this version knows."""
        scripts = ScriptDirectory(Path(migrate.__file__).parent / "migrations")
        return [script.revision for script in scripts.walk_revisions()]

    @asynccontextmanager
    async def reading(self, workspace: Workspace | None) -> AsyncIterator[SqlArchiveSnapshot]:
        """One consistent view, closed on exit. Raises StoreUnavailable."""
        async with begin(self._engines.read) as connection:
            revision = await connection.run_sync(_revision)
            database_id = (await connection.execute(select(schema.counter.c.database_id))).scalar_one()
            yield SqlArchiveSnapshot(connection, workspace, revision, database_id)

    @asynccontextmanager
    async def restoring(self) -> AsyncIterator[SqlRestoration]:
        """One transaction for everything. Raises Conflict, StorageFull, StoreUnavailable, UnreadableDocument."""
        async with begin(self._engines.write) as connection:
            restoration = SqlRestoration(connection)
            await restoration.begin()
            yield restoration
            await restoration.finish()


def _revision(connection: Connection) -> str:
    return str(MigrationContext.configure(connection).get_current_revision())
