"""Rights to do a named work alone, in the database and by its time. Implements Leases."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, and_, delete, func, literal, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from service.adapters.sql import schema
from service.adapters.sql.engine import Engines, begin
from service.adapters.sql.processes import is_dead, this_process


class SqlLeases:
    """One row a right. Whoever stands by only reads."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        self._on_postgres = engines.write.dialect.name == "postgresql"
        self._insert = postgresql.insert if self._on_postgres else sqlite.insert

    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        """Take or renew the right. False while another owner has it, whose process may be alive."""
        table = schema.leases
        statement = select(table.c.owner, table.c.process, table.c.until < self._now()).where(
            table.c.name == name
        )
        async with begin(self._engines.read) as connection:
            held = (await connection.execute(statement)).first()
        dead = held.process if held is not None and is_dead(held.process) else None
        if held is not None and held.owner != owner and not held[2] and dead is None:
            return False
        return await self._take(name, owner, seconds, dead)

    async def release(self, name: str, owner: str) -> None:
        """Give it back."""
        table = schema.leases.c
        async with begin(self._engines.write) as connection:
            await connection.execute(
                delete(schema.leases).where(and_(table.name == name, table.owner == owner))
            )

    async def _take(self, name: str, owner: str, seconds: float, dead: str | None) -> bool:
        """Write it, if what was read still holds when the row is locked."""
        table = schema.leases
        async with begin(self._engines.write) as connection:
            now = self._now()
            values = {
                "owner": owner,
                "until": now + literal(timedelta(seconds=seconds)) if self._on_postgres else _after(seconds),
                "process": this_process(),
            }
            taken = (
                self._insert(table)
                .values(name=name, **values)
                .on_conflict_do_update(
                    index_elements=["name"],
                    set_=values,
                    where=or_(table.c.owner == owner, table.c.until < now, table.c.process == dead),
                )
                .returning(table.c.owner)
            )
            return (await connection.execute(taken)).first() is not None

    def _now(self) -> ColumnElement[datetime]:
        """PostgreSQL's clock, not that of its transaction; on SQLite all processes are of one machine."""
        if self._on_postgres:
            return func.clock_timestamp()
        return literal(datetime.now(UTC), schema.leases.c.until.type)


def _after(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)
