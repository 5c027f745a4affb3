"""The one statement of the common read, sent straight to the driver.

A single statement is its own snapshot: it brings the change-log sequence, what the scorer needs and what an
answer shows. A transaction would be two statements more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import BindParameter, Dialect, Select, bindparam, or_, select, true
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.adapters.sql import rows, schema
from service.adapters.sql.driver import DriverStatement, Raw, driver_errors, listed
from service.adapters.sql.history import newest_nonce
from service.adapters.sql.live_rows import LIVE, SHOWN, Wanted, newest_number, own_workspace, presentable
from service.model import ContentType, Workspace
from service.ports.store import Glance, GlanceRow, PresentablePassage

_MOMENT = (
    3  # columns that every row repeats: the log's newest number, its nonce, and the workspace's own number
)
_SCORED = len(rows.CANDIDATE_COLUMNS)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row whose shown half is converted only if it gets on the page. Implements GlanceRow."""

    raw: Raw

    def shown(self) -> PresentablePassage:
        return presentable(cast("int", self.raw[_MOMENT + 2]), self.raw[_MOMENT + _SCORED :])


class GlanceReader:
    """Runs the statement on either database."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._statement = DriverStatement(_statement(engine.dialect), engine.dialect)
        self._errors = driver_errors(engine.dialect)

    async def read(
        self, workspace: Workspace, keys: Sequence[int], content_type: ContentType | None
    ) -> Glance | None:
        """What the statement shows; None when it failed, and the ordinary path will say why."""
        values: dict[str, object] = {
            "workspace": workspace,
            "content_type": None if content_type is None else content_type.value,
            "keys": listed(self._engine.dialect, keys),
        }
        try:
            async with self._engine.connect() as connection:
                found = await self._told(connection, values)
        except self._errors:
            return None
        if found is None:
            return None
        return Glance(
            seq=cast("int", found[0][0]),
            nonce=cast("int", found[0][1]),
            corpus=cast("int", found[0][2] or 0),
            rows=[
                GlanceRow(rows.candidate(row[_MOMENT : _MOMENT + _SCORED]), _Row(row).shown)
                for row in found
                if row[_MOMENT]
            ],
        )

    async def _told(self, connection: AsyncConnection, values: Mapping[str, object]) -> Sequence[Raw] | None:
        """The rows; None, and never again this connection, when the driver refuses."""
        try:
            return await self._statement.run(connection, values)
        except self._errors:  # the pool does not see the driver's own errors, and would lend it again
            await connection.invalidate()
            return None


def _statement(dialect: Dialect) -> Select[tuple[object, ...]]:
    workspace: BindParameter[object] = bindparam("workspace")
    kind = bindparam("content_type", type_=schema.items.c.content_type.type)
    wanted = Wanted.of(dialect)
    columns = wanted.columns((*rows.CANDIDATE_COLUMNS, *SHOWN))
    found = (
        select(*(column.label(f"column_{place}") for place, column in enumerate(columns)))
        .select_from(wanted.joined)
        .where(
            wanted.is_wanted,
            own_workspace == workspace,
            LIVE,
            or_(kind.is_(None), schema.items.c.content_type == kind),
        )
        .subquery()
    )
    moment = (schema.counter.c.seq, newest_nonce(), newest_number(workspace))
    return select(*moment, found).select_from(schema.counter.outerjoin(found, true()))
