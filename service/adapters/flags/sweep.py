"""Every scope's flag row in one transaction. Implements FlagSweep."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from service.adapters.sql import schema
from service.adapters.sql.engine import Engines, begin
from service.adapters.sql.rollout import SqlFlagWrite
from service.adapters.sql.transaction import lock_counters
from service.model import Workspace
from service.ports.flag import FlagChange

_DEFAULT = Workspace("")  # the default row's workspace; no workspace has an empty name


class SqlFlagWrites:
    """The flag's rows under the write lock. Implements FlagWrites."""

    def __init__(self, connection: AsyncConnection, rows: Mapping[Workspace | None, str]) -> None:
        self._connection = connection
        self.rows = rows

    async def record(self, change: FlagChange) -> None:
        """The row of the change's scope, and the change, as for a single one."""
        scope = _DEFAULT if change.workspace is None else change.workspace
        await SqlFlagWrite(self._connection, scope, self.rows).record(change)


class SqlFlagSweep:
    """Serial with every other write, those of single rows included."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    @asynccontextmanager
    async def sweeping(self) -> AsyncIterator[SqlFlagWrites]:
        """A transaction that holds the write lock."""
        table = schema.rollout_flag.c
        async with begin(self._engines.write) as connection:
            await lock_counters(connection)
            found = await connection.execute(select(table.workspace, table.state).order_by(table.workspace))
            rows = {
                None if row.workspace == _DEFAULT else Workspace(row.workspace): row.state
                for row in found.all()
            }
            yield SqlFlagWrites(connection, rows)
