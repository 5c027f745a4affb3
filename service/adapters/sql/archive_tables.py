"""What an archive holds of which table, in which order. Everything else is derived or of the moment.

A test compares this with the schema: a new table or column is either here or named there as left out.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from sqlalchemy import Column, ColumnElement, FromClause, String, Table, cast

from service.adapters.sql import schema
from service.adapters.sql.history import new_nonce
from service.core.access import KeyScope
from service.core.tokenize import stored_tokens
from service.model import ChangeKind, ContentType, FacetType, SourceType, TagStatus, Workspace
from service.ports.flag import Verdict

StoredRow = dict[str, object]


def _as_it_is(row: StoredRow) -> StoredRow:
    return row


def _item(row: StoredRow) -> StoredRow:
    return {**row, "title_terms": stored_tokens(str(row["title"]))[0]}


def _passage(row: StoredRow) -> StoredRow:
    body, length = stored_tokens(str(row["text"]))
    heading = stored_tokens(str(row["heading"] or ""))[0]
    return {**row, "heading_terms": heading, "body_terms": body, "body_length": length}


def _change(row: StoredRow) -> StoredRow:
    """A restored history is one of its own, whatever is written after it."""
    return {**row, "nonce": new_nonce()}


@dataclass(frozen=True, slots=True)
class ArchivedTable:
    """A table's part in an archive.

    `left_out` are columns that an archive does not have; `completed` gives them back to a row that is stored.
    `choices` are the values that a column of words may have. `reach` is where a workspace's name stands.
    """

    kind: str
    table: Table
    order: tuple[str, ...]
    left_out: frozenset[str] = frozenset()
    choices: Mapping[str, type[StrEnum]] = field(default_factory=dict)
    completed: Callable[[StoredRow], StoredRow] = _as_it_is

    @property
    def columns(self) -> list[Column[object]]:
        """The columns in an archive's rows."""
        return [column for column in self.table.columns if column.name not in self.left_out]

    @property
    def source(self) -> FromClause:
        """What rows are selected from, so that `of` can be asked."""
        return self.table.join(schema.items) if self.table is schema.passages else self.table

    def of(self, workspace: Workspace) -> ColumnElement[bool] | None:
        """What rows belong to a workspace; None for a table that is everybody's.

        A key that reaches other workspaces too is not one workspace's to give away.
        """
        if self.table is schema.counter:
            return None
        if self.table is schema.api_keys:
            return cast(schema.api_keys.c.workspaces, String) == json.dumps([workspace])
        holder = schema.items if self.table is schema.passages else self.table
        return holder.c.workspace == workspace


COUNTER: Final = ArchivedTable(
    "counter", schema.counter, ("id",), left_out=frozenset({"id", "database_id"})
)  # the database's name stands in the header; a restored one has a name of its own

TABLES: Final = (
    COUNTER,
    ArchivedTable(
        "item",
        schema.items,
        ("item_key",),
        left_out=frozenset({"title_terms"}),
        choices={"content_type": ContentType, "source_type": SourceType},
        completed=_item,
    ),
    ArchivedTable(
        "passage",
        schema.passages,
        ("passage_key",),
        left_out=frozenset({"heading_terms", "body_terms", "body_length"}),
        completed=_passage,
    ),
    ArchivedTable("system", schema.systems, ("workspace", "system_id")),
    ArchivedTable("attribute", schema.attributes, ("workspace", "attribute_id")),
    ArchivedTable("factor", schema.factors, ("workspace", "factor_id")),
    ArchivedTable("option", schema.options, ("workspace", "option_id")),
    ArchivedTable(
        "tag",
        schema.facet_tags,
        ("workspace", "tag_id"),
        choices={"facet_type": FacetType, "status": TagStatus},
    ),
    ArchivedTable(
        "tag_event",
        schema.facet_tag_events,
        ("workspace", "tag_id", "step"),
        choices={"before": TagStatus, "after": TagStatus},
    ),
    ArchivedTable("ingest_progress", schema.ingest_progress, ("workspace", "name_hash")),
    ArchivedTable("flag", schema.rollout_flag, ("workspace",)),
    ArchivedTable(
        "flag_change",
        schema.rollout_flag_changes,
        ("id",),
        left_out=frozenset({"id"}),  # given anew in the same order
        choices={"report_verdict": Verdict},
    ),
    ArchivedTable("api_key", schema.api_keys, ("key_id",), choices={"scopes": KeyScope}),
    ArchivedTable(
        "change",
        schema.change_log,
        ("seq",),
        left_out=frozenset({"nonce"}),
        choices={"kind": ChangeKind},
        completed=_change,
    ),
)

BY_KIND: Final = MappingProxyType({archived.kind: archived for archived in TABLES})
