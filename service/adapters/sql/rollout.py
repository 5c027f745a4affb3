"""The rollout flag and shadow mode in SQL. Implements FlagLedger and ShadowLedger."""

from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, and_, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from service.adapters.sql import schema
from service.adapters.sql.engine import Engines, begin
from service.adapters.sql.rows import AnyRow
from service.adapters.sql.transaction import lock_counters
from service.model import Workspace
from service.ports.flag import FlagChange, FlagEvidence, FlagRows, Verdict
from service.ports.shadow import RankMove, Retention, ShadowComparison

_DEFAULT = Workspace("")  # the default row's workspace; no workspace has an empty name


class SqlFlagWrite:
    """The flag's row of one scope under the write lock. Implements FlagWrite."""

    def __init__(
        self, connection: AsyncConnection, scope: Workspace, rows: Mapping[Workspace | None, str]
    ) -> None:
        self._connection = connection
        self._scope = scope
        self.before = rows.get(None if scope == _DEFAULT else scope)
        self.default = rows.get(None)

    async def record(self, change: FlagChange) -> None:
        """The row is written anew or removed; the change is only ever added."""
        table = schema.rollout_flag
        await self._connection.execute(delete(table).where(table.c.workspace == self._scope))
        if change.after is not None:
            await self._connection.execute(
                insert(table).values(workspace=self._scope, state=change.after, by=change.who, at=change.at)
            )
        evidence = change.evidence
        await self._connection.execute(
            insert(schema.rollout_flag_changes).values(
                workspace=change.workspace,
                at=change.at,
                by=change.who,
                before=change.before,
                after=change.after,
                reason=change.reason,
                report_path=None if evidence is None else evidence.path,
                report_verdict=None if evidence is None else evidence.verdict.value,
                report_dataset_hash=None if evidence is None else evidence.dataset_hash,
                report_created_at=None if evidence is None else evidence.created_at,
                forced=change.forced,
            )
        )


class SqlFlagLedger:
    """The flag's rows and their changes. Writes are serial with every other write."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    async def rows(self, workspace: Workspace) -> FlagRows:
        """What is stored for a workspace."""
        table = schema.rollout_flag.c
        statement = select(table.workspace, table.state).where(table.workspace.in_([workspace, _DEFAULT]))
        async with begin(self._engines.read) as connection:
            found = {row.workspace: row.state for row in (await connection.execute(statement)).all()}
        return FlagRows(found.get(workspace), found.get(_DEFAULT))

    async def all_rows(self) -> Mapping[Workspace | None, str]:
        """Every row, the default's first."""
        async with begin(self._engines.read) as connection:
            return await _all_rows(connection)

    @asynccontextmanager
    async def changing(self, workspace: Workspace | None) -> AsyncIterator[SqlFlagWrite]:
        """A transaction that holds the write lock."""
        async with begin(self._engines.write) as connection:
            await lock_counters(connection)
            scope = _DEFAULT if workspace is None else workspace
            yield SqlFlagWrite(connection, scope, await _all_rows(connection))

    async def changes(self, limit: int) -> Sequence[FlagChange]:
        """The newest changes, newest first."""
        table = schema.rollout_flag_changes
        statement = select(table).order_by(table.c.id.desc()).limit(limit)
        async with begin(self._engines.read) as connection:
            return [_change(row) for row in (await connection.execute(statement)).all()]


class SqlShadowLedger:
    """What shadow mode saw, no more of it than the retention says."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    async def add(self, comparisons: Sequence[ShadowComparison], retention: Retention) -> int:
        """Store and trim in one transaction."""
        values = [_stored(comparison) for comparison in comparisons]
        async with begin(self._engines.write) as connection:
            if values:
                await connection.execute(insert(schema.shadow_comparisons), values)
            workspaces = {one.workspace for one in comparisons} or await _compared(connection)
            return await _trim(connection, retention, workspaces)

    async def comparisons(
        self, workspace: Workspace | None, since: datetime, after: int, limit: int
    ) -> tuple[Sequence[ShadowComparison], int | None]:
        """A page in id order."""
        table = schema.shadow_comparisons
        statement = (
            select(table).where(table.c.id > after, table.c.at >= since).order_by(table.c.id).limit(limit)
        )
        if workspace is not None:
            statement = statement.where(table.c.workspace == workspace)
        async with begin(self._engines.read) as connection:
            found = (await connection.execute(statement)).all()
        return [_comparison(row) for row in found], found[-1].id if len(found) == limit else None


async def _all_rows(connection: AsyncConnection) -> dict[Workspace | None, str]:
    table = schema.rollout_flag.c
    found = await connection.execute(select(table.workspace, table.state).order_by(table.workspace))
    return {None if row.workspace == _DEFAULT else Workspace(row.workspace): row.state for row in found.all()}


async def _compared(connection: AsyncConnection) -> AbstractSet[Workspace]:
    found = await connection.execute(select(schema.shadow_comparisons.c.workspace).distinct())
    return {Workspace(row.workspace) for row in found.all()}


async def _trim(connection: AsyncConnection, retention: Retention, workspaces: AbstractSet[Workspace]) -> int:
    """Rows over age, and those workspaces' rows behind their newest `rows`; bounded by the batch."""
    table = schema.shadow_comparisons
    too_old = table.c.at < datetime.now(UTC) - retention.age
    removed = await _remove(connection, too_old, retention.batch)
    for workspace in sorted(workspaces):
        newest_surplus = (
            select(table.c.id)
            .where(table.c.workspace == workspace)
            .order_by(table.c.id.desc())
            .offset(retention.rows)
            .limit(1)
            .scalar_subquery()
        )
        surplus = and_(table.c.workspace == workspace, table.c.id <= newest_surplus)
        removed += await _remove(connection, surplus, retention.batch - removed)
    return removed


async def _remove(connection: AsyncConnection, which: ColumnElement[bool], at_most: int) -> int:
    table = schema.shadow_comparisons
    oldest = select(table.c.id).where(which).order_by(table.c.id).limit(max(0, at_most))
    return (await connection.execute(delete(table).where(table.c.id.in_(oldest)))).rowcount


def _change(row: AnyRow) -> FlagChange:
    evidence = None
    if row.report_path is not None:
        evidence = FlagEvidence(
            row.report_path, Verdict(row.report_verdict), row.report_dataset_hash, row.report_created_at
        )
    return FlagChange(
        workspace=None if row.workspace is None else Workspace(row.workspace),
        at=row.at,
        who=row.by,
        before=row.before,
        after=row.after,
        reason=row.reason,
        evidence=evidence,
        forced=row.forced,
    )


def _stored(comparison: ShadowComparison) -> dict[str, object]:
    return {
        "workspace": comparison.workspace,
        "at": comparison.at,
        "subject": comparison.subject,
        "query_hash": comparison.query_hash,
        "lexical_ms": comparison.lexical_ms,
        "hybrid_ms": comparison.hybrid_ms,
        "degraded": comparison.degraded,
        "overlap": comparison.overlap,
        "moves": [[move.passage_id, move.lexical_rank, move.hybrid_rank] for move in comparison.moves],
    }


def _comparison(row: AnyRow) -> ShadowComparison:
    return ShadowComparison(
        workspace=Workspace(row.workspace),
        at=row.at,
        subject=row.subject,
        query_hash=row.query_hash,
        lexical_ms=row.lexical_ms,
        hybrid_ms=row.hybrid_ms,
        degraded=row.degraded,
        overlap=row.overlap,
        moves=tuple(RankMove(*move) for move in row.moves),
    )
