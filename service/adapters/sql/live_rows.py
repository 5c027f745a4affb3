"""The statements of every read: which rows are live, and what an answer shows of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Dialect,
    Executable,
    FromClause,
    ScalarSelect,
    and_,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    true,
)
from sqlalchemy import text as sql_text
from sqlalchemy.ext.asyncio import AsyncConnection

from service.adapters.sql import rows, schema
from service.adapters.sql.driver import DriverStatement, Raw, among_keys, driver_errors, is_postgres, listed
from service.adapters.sql.history import moment
from service.core.text import is_storable
from service.errors import StoreUnavailable
from service.model import ContentType, ItemId, Provenance, SourceType, Workspace
from service.ports.store import Candidate, PassageKey, PresentablePassage

# The rule of service.core.staleness.is_stale, in SQL.
LIVE = and_(schema.items.c.retired_at.is_(None), schema.items.c.superseded_by.is_(None))
JOINED = schema.passages.join(schema.items)
# The workspace as an expression: SQLite would otherwise walk the workspace's items by their index and look for
# the few passages wanted among all of theirs (35 times slower at 20,000 passages, and growing).
own_workspace = schema.items.c.workspace.concat(literal_column("''"))
SHOWN = (schema.passages.c.heading, schema.passages.c.text, *rows.PROVENANCE_COLUMNS)

# By name the other way round: from each name to its item, from the item to its passage. The planners would
# rather read an index from end to end (26 ms against 3 ms for 400 names among 20,000 passages on SQLite).
_SQLITE_NAMED = """
SELECT items.item_id, passages.seq, passages.passage_key
FROM json_each(:names) AS name
CROSS JOIN items ON items.item_id = json_extract(name.value, '$[0]') AND items.workspace = :workspace
CROSS JOIN passages ON passages.item_key = items.item_key AND passages.seq = json_extract(name.value, '$[1]')
WHERE items.retired_at IS NULL AND items.superseded_by IS NULL AND passages.scorable
AND (:content_type IS NULL OR items.content_type = :content_type)
"""
_POSTGRES_NAMED = """
SELECT items.item_id, passages.seq, passages.passage_key
FROM unnest(CAST(:item_ids AS text[]), CAST(:seqs AS integer[])) AS name(item_id, seq)
JOIN items ON items.item_id = name.item_id AND items.workspace = :workspace
JOIN passages ON passages.item_key = items.item_key AND passages.seq = name.seq
WHERE items.retired_at IS NULL AND items.superseded_by IS NULL AND passages.scorable
AND (CAST(:content_type AS VARCHAR) IS NULL OR items.content_type = :content_type)
"""


_SEQS = 2**31  # a passage's seq is a 32-bit integer


def newest_number(workspace: Workspace | BindParameter[object]) -> ScalarSelect[int]:
    """The number of a workspace's newest change; NULL before the first."""
    log = schema.change_log.c
    return select(func.max(log.number)).where(log.workspace == workspace).scalar_subquery()


_MOMENT = moment()


@dataclass(frozen=True, slots=True)
class Wanted:
    """The passages named by the parameter `keys`, to be joined with their items.

    PostgreSQL is told to look them up first: without statistics, as after a restore, it would begin with every
    item (64 keys in 694 ms against 8 ms at 200,000 passages).
    """

    passages: FromClause
    is_wanted: ColumnElement[bool]

    @classmethod
    def of(cls, dialect: Dialect) -> "Wanted":
        """As the database takes it best."""
        named = and_(among_keys(dialect), schema.passages.c.scorable)
        if not is_postgres(dialect):
            return cls(schema.passages, named)
        found = select(schema.passages).where(named).cte("wanted").prefix_with("MATERIALIZED")
        return cls(found, true())

    @property
    def joined(self) -> FromClause:
        """With their items."""
        return self.passages.join(schema.items, schema.items.c.item_key == self.passages.c.item_key)

    def columns(self, columns: Sequence[ColumnElement[object]]) -> list[ColumnElement[object]]:
        """The same columns, those of passages taken from here."""
        return [
            self.passages.c[column.name]
            if isinstance(column, Column) and column.table is schema.passages
            else column
            for column in columns
        ]


class LiveRows:
    """The statements of one database; they run in whatever transaction the connection is in."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._errors = driver_errors(dialect)
        named = sql_text(_POSTGRES_NAMED if is_postgres(dialect) else _SQLITE_NAMED)
        self._candidates = DriverStatement(_candidates(dialect), dialect)
        self._named = DriverStatement(named, dialect)
        self._shown = DriverStatement(_shown(dialect), dialect)
        self._moment = DriverStatement(_MOMENT, dialect)
        self._corpus = DriverStatement(select(newest_number(bindparam("workspace"))), dialect)

    async def moment(self, connection: AsyncConnection) -> tuple[int, int]:
        """A transaction's sequence number and its nonce, as its first statement. Raises StoreUnavailable.

        On PostgreSQL the statement goes through SQLAlchemy, which begins the transaction with it.
        """
        if is_postgres(self._dialect):
            found = (await connection.execute(_MOMENT)).one()
            return found[0], found[1]
        ((seq, nonce),) = await self._run(self._moment, connection, {})
        return cast("int", seq), cast("int", nonce)

    async def corpus(self, connection: AsyncConnection, workspace: Workspace) -> int:
        """How many changes the workspace has seen. Raises StoreUnavailable."""
        ((number,),) = await self._run(self._corpus, connection, {"workspace": workspace})
        return cast("int", number or 0)

    async def candidates(
        self,
        connection: AsyncConnection,
        workspace: Workspace,
        keys: Sequence[int],
        content_type: ContentType | None,
    ) -> Sequence[Candidate]:
        """The live scorable passages among `keys`. Raises StoreUnavailable."""
        values = self._scope(workspace, content_type, keys=listed(self._dialect, keys))
        return [rows.candidate(row) for row in await self._run(self._candidates, connection, values)]

    async def named(
        self,
        connection: AsyncConnection,
        workspace: Workspace,
        names: Sequence[tuple[ItemId, int]],
        content_type: ContentType | None,
    ) -> Mapping[tuple[ItemId, int], PassageKey]:
        """The keys of the live scorable passages among the names. Raises StoreUnavailable."""
        names = [(item_id, seq) for item_id, seq in names if _may_exist(item_id, seq)]
        if is_postgres(self._dialect):
            asked: dict[str, object] = {"item_ids": [n[0] for n in names], "seqs": [n[1] for n in names]}
        else:
            asked = {"names": json.dumps(names)}
        found = await self._run(self._named, connection, self._scope(workspace, content_type, **asked))
        return {
            (ItemId(cast("str", item_id)), cast("int", seq)): PassageKey(cast("int", key))
            for item_id, seq, key in found
        }

    async def shown(
        self, connection: AsyncConnection, keys: Sequence[PassageKey]
    ) -> Mapping[PassageKey, PresentablePassage]:
        """What an answer shows of passages. Raises StoreUnavailable."""
        found = await self._run(self._shown, connection, {"keys": listed(self._dialect, keys)})
        return {PassageKey(cast("int", row[0])): presentable(cast("int", row[1]), row[2:]) for row in found}

    def _scope(
        self, workspace: Workspace, content_type: ContentType | None, **more: object
    ) -> dict[str, object]:
        kind = None if content_type is None else content_type.value
        return {"workspace": workspace, "content_type": kind, **more}

    async def _run(
        self, statement: DriverStatement, connection: AsyncConnection, values: Mapping[str, object]
    ) -> Sequence[Raw]:
        try:
            return await statement.run(connection, values)
        except self._errors as error:
            raise StoreUnavailable("the database does not answer") from error


def presentable(seq: int, shown: Raw) -> PresentablePassage:
    """A row of the columns SHOWN as a driver gives it."""
    heading, text, item_id, title, kind, source, url, url_ok, filename, types, version, at = shown
    return PresentablePassage(
        heading=cast("str | None", heading),
        seq=seq,
        text=cast("str", text),
        provenance=Provenance(
            item_id=ItemId(cast("str", item_id)),
            title=cast("str", title),
            content_type=ContentType(cast("str", kind)),
            source_type=SourceType(cast("str", source)),
            source_url=cast("str | None", url),
            source_url_ok=None if url_ok is None else bool(url_ok),
            source_filename=cast("str | None", filename),
            resource_types=None if types is None else tuple(_listed(types)),
            version=cast("str", version),
            fetched_at=_utc(cast("str | datetime", at)),
        ),
    )


def _candidates(dialect: Dialect) -> Executable:
    wanted = Wanted.of(dialect)
    kind = bindparam("content_type", type_=schema.items.c.content_type.type)
    return (
        select(*wanted.columns(rows.CANDIDATE_COLUMNS))
        .select_from(wanted.joined)
        .where(
            wanted.is_wanted,
            own_workspace == bindparam("workspace"),
            LIVE,
            or_(kind.is_(None), schema.items.c.content_type == kind),
        )
    )


def _shown(dialect: Dialect) -> Executable:
    wanted = Wanted.of(dialect)
    columns = (schema.passages.c.passage_key, schema.passages.c.seq, *SHOWN)
    return select(*wanted.columns(columns)).select_from(wanted.joined).where(wanted.is_wanted)


def _may_exist(item_id: ItemId, seq: int) -> bool:
    """Whether the database can be asked for such a name: an index may invent any."""
    return 0 <= seq < _SEQS and is_storable(item_id)


def _listed(stored: object) -> list[str]:
    """A JSON list: text from SQLite's driver, a list already where SQLAlchemy taught asyncpg to read JSON."""
    found = json.loads(stored) if isinstance(stored, str) else stored
    return cast("list[str]", found)


def _utc(stored: str | datetime) -> datetime:
    moment = datetime.fromisoformat(stored) if isinstance(stored, str) else stored
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
