"""An empty database, filled in one transaction. Implements Restoration."""

import asyncio
import uuid
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Column, exists, func, insert, select, update
from sqlalchemy.exc import DataError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from service.adapters.sql import schema
from service.adapters.sql.archive_tables import BY_KIND, COUNTER, TABLES, ArchivedTable, StoredRow
from service.adapters.sql.archive_values import WrongValue, taken
from service.adapters.sql.transaction import lock_counters
from service.errors import Conflict, UnreadableDocument
from service.ports.archive import NumberedRecord, refused

# No row may have a number that the counter will give again.
_NUMBERED: Final[tuple[tuple[str, Column[int]], ...]] = (
    ("seq", schema.change_log.c.seq),
    ("item_key", schema.items.c.item_key),
    ("passage_key", schema.passages.c.passage_key),
)


class SqlRestoration:
    """Rows are checked against their columns, completed with what is derived from them, and inserted."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._counter: dict[str, int] | None = None

    async def begin(self) -> None:
        """Take the write lock. Raises Conflict unless the database is as new."""
        counters = await lock_counters(self._connection)
        held = [archived.kind for archived in TABLES if await self._holds(archived)]
        if held:
            raise Conflict(f"the database is not empty, it has rows of: {', '.join(held)}; take a new one")
        if counters.seq != 0:
            raise Conflict("the database has been written to before; take a new one")

    async def store(self, kind: str, records: Sequence[NumberedRecord]) -> None:
        """Store the next rows. Raises UnreadableDocument."""
        archived = BY_KIND[kind]
        rows = await asyncio.to_thread(_stored_rows, archived, records)
        if archived is COUNTER:
            self._take_counter(records, rows)
            return
        try:
            await self._connection.execute(insert(archived.table), rows)
        except (IntegrityError, DataError) as error:
            raise refused(records[0].line, f"or one up to {records[-1].line} contradicts another") from error

    async def finish(self) -> None:
        """Set the counters and give the database a new name, so that no index of another one is trusted.

        Raises UnreadableDocument when the rows go beyond the counters.
        """
        if self._counter is None:
            raise UnreadableDocument("the archive has no counter; nothing was stored")
        for name, column in _NUMBERED:
            largest = select(func.coalesce(func.max(column), 0))
            if int((await self._connection.execute(largest)).scalar_one()) > self._counter[name]:
                raise UnreadableDocument(f"the archive's {name} is behind its rows; nothing was stored")
        await self._connection.execute(
            update(schema.counter)
            .where(schema.counter.c.id == 1)
            .values(**self._counter, database_id=uuid.uuid4().hex)
        )

    async def _holds(self, archived: ArchivedTable) -> bool:
        if archived is COUNTER:
            return False
        statement = select(exists(select(archived.table.c[archived.order[0]])))
        return bool((await self._connection.execute(statement)).scalar_one())

    def _take_counter(self, records: Sequence[NumberedRecord], rows: list[StoredRow]) -> None:
        if self._counter is not None or len(rows) > 1:
            raise refused(records[-1].line, "is a second counter")
        self._counter = {name: int(str(value)) for name, value in rows[0].items()}


def _stored_rows(archived: ArchivedTable, records: Sequence[NumberedRecord]) -> list[StoredRow]:
    """Raises UnreadableDocument naming the first wrong line."""
    rows = []
    for record in records:
        try:
            rows.append(archived.completed(taken(archived, record.fields)))
        except WrongValue as error:
            raise refused(record.line, str(error)) from error
    return rows
