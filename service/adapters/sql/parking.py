"""Passages that could not be embedded, set aside for a while. Implements Parking."""

from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import Select, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from service.adapters.sql import schema
from service.adapters.sql.engine import Engines, begin
from service.core.parking import retry_after
from service.model import ItemId, Workspace
from service.ports.embedding import Embeddable, Parked
from service.ports.vectors import CollectionName

_LONGEST_REASON = 500
_TABLE = schema.vector_parked


class SqlParking:
    """One row a collection and passage."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        postgres = engines.write.dialect.name == "postgresql"
        self._insert = postgresql.insert if postgres else sqlite.insert

    async def park(self, collection: CollectionName, passage: Embeddable, reason: str) -> None:
        """Set a passage aside, or count another attempt."""
        one = (_TABLE.c.collection == collection) & (_TABLE.c.passage_key == passage.passage_key)
        now = datetime.now(UTC)
        async with begin(self._engines.write) as connection:
            before = (await connection.execute(select(_TABLE.c.attempts).where(one))).scalar_one_or_none()
            attempts = 1 + (before or 0)
            values = {
                "reason": reason[:_LONGEST_REASON],
                "attempts": attempts,
                "at": now,
                "retry_at": now + retry_after(attempts),
            }
            statement = self._insert(_TABLE).values(
                collection=collection, passage_key=passage.passage_key, **values
            )
            await connection.execute(
                statement.on_conflict_do_update(index_elements=["collection", "passage_key"], set_=values)
            )

    async def unpark(self, collection: CollectionName, passage_keys: Sequence[int]) -> None:
        """These passages are no longer set aside; writes nothing when none of them was."""
        these = (_TABLE.c.collection == collection) & _TABLE.c.passage_key.in_(passage_keys)
        async with begin(self._engines.read) as connection:
            found = (await connection.execute(select(_TABLE.c.passage_key).where(these).limit(1))).first()
        if found is not None:
            async with begin(self._engines.write) as connection:
                await connection.execute(delete(_TABLE).where(these))

    async def parked(self, collection: CollectionName, limit: int) -> Sequence[Parked]:
        """Passages that are set aside, by key."""
        return await self._found(_of(collection).order_by(_TABLE.c.passage_key).limit(limit))

    async def due(self, collection: CollectionName, moment: datetime, limit: int) -> Sequence[Parked]:
        """Those that are to be tried again at a moment, the longest due first."""
        statement = _of(collection).where(_TABLE.c.retry_at <= moment)
        return await self._found(statement.order_by(_TABLE.c.retry_at, _TABLE.c.passage_key).limit(limit))

    async def _found(self, statement: Select[tuple[object, ...]]) -> list[Parked]:
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
                row.retry_at,
            )
            for row in found
        ]


def _of(collection: CollectionName) -> Select[tuple[object, ...]]:
    """A collection's parked passages, with the names of their items."""
    statement: Select[tuple[object, ...]] = (
        select(
            _TABLE.c.passage_key,
            _TABLE.c.reason,
            _TABLE.c.attempts,
            _TABLE.c.retry_at,
            schema.items.c.workspace,
            schema.items.c.item_id,
            schema.passages.c.seq,
        )
        .select_from(
            _TABLE.join(schema.passages, schema.passages.c.passage_key == _TABLE.c.passage_key).join(
                schema.items, schema.items.c.item_key == schema.passages.c.item_key
            )
        )
        .where(_TABLE.c.collection == collection)
    )
    return statement
