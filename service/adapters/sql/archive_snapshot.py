"""Everything authoritative, read in one snapshot. Implements ArchiveSnapshot."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from sqlalchemy import Row, Select, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from service.adapters.sql.archive_tables import TABLES, ArchivedTable
from service.adapters.sql.archive_values import given
from service.model import Workspace
from service.ports.archive import Rows

ROWS_AT_A_TIME = 500  # a passage has at most 200,000 characters


class SqlArchiveSnapshot:
    """The rows of one workspace or of all; `schema` and `database_id` are those of the database."""

    def __init__(
        self, connection: AsyncConnection, workspace: Workspace | None, schema: str, database_id: str
    ) -> None:
        self._connection = connection
        self._workspace = workspace
        self.schema = schema
        self.database_id = database_id

    async def count(self) -> int:
        """How many rows `batches` will give."""
        total = 0
        for archived in TABLES:
            statement = self._within(archived, select(func.count()).select_from(archived.source))
            total += int((await self._connection.execute(statement)).scalar_one())
        return total

    async def batches(self) -> AsyncIterator[Rows]:
        """Every row; a cursor on the server's side, so that only a batch is in memory."""
        for archived in TABLES:
            order = [archived.table.c[name] for name in archived.order]
            statement = select(*archived.columns).select_from(archived.source).order_by(*order)
            result = await self._connection.stream(
                self._within(archived, statement), execution_options={"yield_per": ROWS_AT_A_TIME}
            )
            async for rows in result.partitions():
                yield _rows(archived, rows)

    def _within(
        self, archived: ArchivedTable, statement: Select[*tuple[Any, ...]]
    ) -> Select[*tuple[Any, ...]]:
        mine = None if self._workspace is None else archived.of(self._workspace)
        return statement if mine is None else statement.where(mine)


def _rows(archived: ArchivedTable, rows: Sequence[Row[Any]]) -> Rows:
    names = [column.name for column in archived.columns]
    return Rows(
        archived.kind, [{name: given(value) for name, value in zip(names, row, strict=True)} for row in rows]
    )
