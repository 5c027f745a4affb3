"""The one statement of the common read, sent straight to the driver.

A single statement is its own snapshot: it brings the change-log sequence, what the scorer needs and what an
answer shows. SQLAlchemy builds and compiles it once; running it through SQLAlchemy's async layer would cost
four thread hops on SQLite for each statement, and a transaction two statements more.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, cast

from sqlalchemy import BigInteger, Select, any_, bindparam, or_, select, true
from sqlalchemy import text as sql_text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine

from service.adapters.sql import rows, schema
from service.adapters.sql.snapshot import JOINED, LIVE, own_workspace
from service.model import ContentType, ItemId, Provenance, SourceType, Workspace
from service.ports.store import Glance, GlanceRow, PresentablePassage

_SHOWN = (schema.passages.c.heading, schema.passages.c.text, *rows.PROVENANCE_COLUMNS)
_SCORED = len(rows.CANDIDATE_COLUMNS)
Raw = Sequence[object]


class _Driver(Protocol):
    """What is used of the two drivers' connections."""

    async def execute_fetchall(self, sql: str, parameters: Sequence[object]) -> Sequence[Raw]:
        """One statement on aiosqlite's thread."""
        ...

    async def fetch(self, query: str, *parameters: object) -> Sequence[Raw]:
        """One statement on asyncpg."""
        ...


@dataclass(frozen=True, slots=True)
class _Row:
    """A row whose shown half is converted only if it gets on the page. Implements GlanceRow."""

    raw: Raw

    def shown(self) -> PresentablePassage:
        heading, text, item_id, title, kind, source, url, url_ok, filename, types, version, at = self.raw[
            1 + _SCORED :
        ]
        return PresentablePassage(
            heading=cast("str | None", heading),
            seq=cast("int", self.raw[3]),
            text=cast("str", text),
            provenance=Provenance(
                item_id=ItemId(cast("str", item_id)),
                title=cast("str", title),
                content_type=ContentType(cast("str", kind)),
                source_type=SourceType(cast("str", source)),
                source_url=cast("str | None", url),
                source_url_ok=None if url_ok is None else bool(url_ok),
                source_filename=cast("str | None", filename),
                resource_types=None if types is None else tuple(json.loads(cast("str", types))),
                version=cast("str", version),
                fetched_at=_utc(cast("str | datetime", at)),
            ),
        )


class GlanceReader:
    """Runs the statement on either database."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._postgres = engine.dialect.name == "postgresql"
        compiled = _statement(postgres=self._postgres).compile(dialect=engine.dialect)
        self._sql = str(compiled)
        self._order: tuple[str, ...] = tuple(compiled.positiontup or ())
        errors: tuple[type[Exception], ...] = (sqlite3.Error,)
        if self._postgres:
            driver = engine.dialect.loaded_dbapi.asyncpg
            errors = (driver.PostgresError, driver.InterfaceError)
        self._errors: tuple[type[Exception], ...] = (*errors, DBAPIError, PoolTimeout, OSError)

    async def read(
        self, workspace: Workspace, keys: Sequence[int], content_type: ContentType | None
    ) -> Glance | None:
        """What the statement shows; None when it failed, and the ordinary path will say why."""
        values: dict[str, object] = {
            "workspace": workspace,
            "content_type": None if content_type is None else content_type.value,
            "keys": list(keys) if self._postgres else json.dumps(list(keys)),
        }
        parameters = [values[name] for name in self._order]
        try:
            async with self._engine.connect() as connection:
                raw = await connection.get_raw_connection()
                found = await self._run(cast("_Driver", raw.driver_connection), parameters)
        except self._errors:
            return None
        return Glance(
            seq=cast("int", found[0][0]),
            rows=[
                GlanceRow(rows.candidate(row[1 : 1 + _SCORED]), _Row(row).shown) for row in found if row[1]
            ],
        )

    async def _run(self, driver: _Driver, parameters: Sequence[object]) -> Sequence[Raw]:
        if self._postgres:
            return await driver.fetch(self._sql, *parameters)
        return await driver.execute_fetchall(self._sql, parameters)


def _statement(*, postgres: bool) -> Select[tuple[object, ...]]:
    keys = (
        schema.passages.c.passage_key == any_(bindparam("keys", type_=ARRAY(BigInteger)))
        if postgres
        else schema.passages.c.passage_key.in_(sql_text("SELECT value FROM json_each(:keys)"))
    )
    kind = bindparam("content_type", type_=schema.items.c.content_type.type)
    found = (
        select(*rows.CANDIDATE_COLUMNS, *(column.label(f"shown_{column.name}") for column in _SHOWN))
        .select_from(JOINED)
        .where(
            keys,
            own_workspace == bindparam("workspace"),
            LIVE,
            schema.passages.c.scorable,
            or_(kind.is_(None), schema.items.c.content_type == kind),
        )
        .subquery()
    )
    return select(schema.counter.c.seq, found).select_from(schema.counter.outerjoin(found, true()))


def _utc(stored: str | datetime) -> datetime:
    moment = datetime.fromisoformat(stored) if isinstance(stored, str) else stored
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
