"""What processes tell each other of the vector index, in SQL. Implements VectorReports."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, func, select, type_coerce
from sqlalchemy.dialects import postgresql, sqlite

from service.adapters.sql import schema
from service.adapters.sql.engine import Engines, begin
from service.adapters.sql.rows import AnyRow
from service.ports.vector_reports import (
    MOST_WORKERS,
    NotedComparison,
    SeenWorker,
    VectorFault,
    WorkerDuty,
    WorkerReport,
)
from service.ports.vectors import CollectionName

FORGOTTEN_AFTER = timedelta(days=1)
MOST_CHARACTERS = 500  # of a failure


class SqlVectorReports:
    """A row a collection and a row a worker. Seconds since a worker's word are by the database's clock."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines
        postgres = engines.write.dialect.name == "postgresql"
        self._upsert = postgresql.insert if postgres else sqlite.insert

    async def note_comparison(self, noted: NotedComparison) -> None:
        """Keep it, unless a newer one is kept; those of dropped collections go."""
        table, known = schema.vector_comparisons, schema.vector_collections
        values = {"at": noted.at, "missing": noted.missing, "orphan": noted.orphan, "by": noted.by}
        statement = self._upsert(table).values(collection=noted.collection, **values)
        dropped = table.c.collection.not_in(select(known.c.name))
        async with begin(self._engines.write) as connection:
            await connection.execute(
                statement.on_conflict_do_update(
                    index_elements=["collection"], set_=values, where=table.c.at <= noted.at
                )
            )
            await connection.execute(delete(table).where(dropped))

    async def comparison(self, collection: CollectionName) -> NotedComparison | None:
        """The newest one."""
        table = schema.vector_comparisons
        async with begin(self._engines.read) as connection:
            found = await connection.execute(select(table).where(table.c.collection == collection))
            row = found.one_or_none()
        if row is None:
            return None
        return NotedComparison(CollectionName(row.collection), row.at, row.missing, row.orphan, row.by)

    async def report(self, report: WorkerReport) -> None:
        """Keep a worker's word, and forget those that nobody has heard of for a day."""
        table = schema.vector_workers
        values: dict[str, object] = {
            "place": report.place,
            "model": report.model,
            "duty": report.duty.value,
            "is_failing": report.fault is not None,
            "seen_at": func.now(),
        }
        if report.fault is not None:
            failure = None if report.failure is None else report.failure[:MOST_CHARACTERS]
            values |= {"fault": report.fault.value, "failure": failure, "failed_at": func.now()}
        statement = self._upsert(table).values(owner=report.owner, **values)
        async with begin(self._engines.write) as connection:
            await connection.execute(statement.on_conflict_do_update(index_elements=["owner"], set_=values))
            forgotten = table.c.seen_at < datetime.now(UTC) - FORGOTTEN_AFTER
            await connection.execute(delete(table).where(forgotten))

    async def withdraw(self, owner: str) -> None:
        """Nothing is left of it."""
        table = schema.vector_workers
        async with begin(self._engines.write) as connection:
            await connection.execute(delete(table).where(table.c.owner == owner))

    async def workers(self) -> Sequence[SeenWorker]:
        """The newest word first."""
        table = schema.vector_workers
        clock = type_coerce(func.now(), schema.UtcDateTime).label("clock")
        statement = select(table, clock).order_by(table.c.seen_at.desc(), table.c.owner).limit(MOST_WORKERS)
        async with begin(self._engines.read) as connection:
            return [_seen(row) for row in (await connection.execute(statement)).all()]


def _seen(row: AnyRow) -> SeenWorker:
    return SeenWorker(
        place=row.place,
        model=row.model,
        duty=WorkerDuty(row.duty),
        is_failing=row.is_failing,
        fault=None if row.fault is None else VectorFault(row.fault),
        failure=row.failure,
        failed_at=row.failed_at,
        silent_seconds=max(0.0, (row.clock - row.seen_at).total_seconds()),
    )
