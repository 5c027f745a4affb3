"""One write transaction. It holds the write lock from its first statement, so its reads cannot be overtaken."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Table, and_, bindparam, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from service.adapters.sql import rows, schema
from service.adapters.sql.history import new_nonce
from service.adapters.sql.live_rows import LIVE, LiveRows, newest_number
from service.adapters.sql.snapshot import SqlSnapshot
from service.core.capture_rules import ItemHead
from service.model import (
    ChangeKind,
    Facet,
    FacetTag,
    FacetType,
    ItemId,
    PassageText,
    TagEvent,
    Vocabulary,
    Workspace,
)
from service.ports.store import IngestMark, NewItem

PASSAGES_AT_A_TIME = 1_000  # tokenized on a thread and inserted, so that other requests get their turns


@dataclass(slots=True)
class Counters:
    """The counter row while its lock is held."""

    seq: int
    item_key: int
    passage_key: int


async def lock_counters(connection: AsyncConnection) -> Counters:
    """Take the write lock and read the counters. An UPDATE, so that PostgreSQL locks the row."""
    statement = (
        update(schema.counter)
        .where(schema.counter.c.id == 1)
        .values(seq=schema.counter.c.seq)
        .returning(schema.counter.c.seq, schema.counter.c.item_key, schema.counter.c.passage_key)
    )
    row = (await connection.execute(statement)).one()
    return Counters(row.seq, row.item_key, row.passage_key)


class SqlTransaction:
    """Writes of one workspace. Implements WriteTransaction."""

    def __init__(
        self, connection: AsyncConnection, workspace: Workspace, counters: Counters, live: LiveRows
    ) -> None:
        self._connection = connection
        self._live = live
        self._workspace = workspace
        self._counters = counters
        self._changes: list[dict[str, object]] = []
        self._now = datetime.now(UTC)
        self._nonce = new_nonce()

    async def heads(self, item_ids: Sequence[ItemId]) -> Mapping[ItemId, ItemHead]:
        """The items among `item_ids` that exist."""
        statement = select(*rows.HEAD_COLUMNS).where(
            schema.items.c.workspace == self._workspace, schema.items.c.item_id.in_(item_ids)
        )
        found = [rows.head(row) for row in (await self._connection.execute(statement)).all()]
        return {head.item_id: head for head in found}

    async def live_heads(self, source_key_hashes: Sequence[str]) -> Mapping[str, ItemHead]:
        """The live item of each source that has one."""
        statement = select(*rows.HEAD_COLUMNS).where(
            schema.items.c.workspace == self._workspace,
            schema.items.c.source_hash.in_(source_key_hashes),
            LIVE,
        )
        found = [rows.head(row) for row in (await self._connection.execute(statement)).all()]
        return {head.source_key_hash: head for head in found}

    async def capture_counts(self, source_key_hashes: Sequence[str]) -> Mapping[str, int]:
        """How many items each source ever had."""
        statement = (
            select(schema.items.c.source_hash, func.count().label("captures"))
            .where(
                schema.items.c.workspace == self._workspace, schema.items.c.source_hash.in_(source_key_hashes)
            )
            .group_by(schema.items.c.source_hash)
        )
        return {row.source_hash: row.captures for row in (await self._connection.execute(statement)).all()}

    async def insert_items(self, new: Sequence[NewItem]) -> None:
        """Store items in order; each item's predecessor turns stale before the item itself is stored."""
        if not new:
            return
        keys = dict(zip((item.item_id for item in new), self._next_item_keys(len(new)), strict=True))
        old = await self.heads([item.supersedes for item in new if item.supersedes])
        item_rows, superseded = [], []
        passages: list[tuple[int, int, PassageText]] = []
        for item in new:
            key = keys[item.item_id]
            row = rows.item_row(
                key,
                self._workspace,
                item.item_id,
                item.capture,
                (item.source_key_hash, item.content_hash),
                item.fetched_at,
            )
            item_rows.append(row)
            passages += [(self._next_passage_key(), key, passage) for passage in item.capture.passages]
            if item.supersedes is not None:
                old_key = keys[item.supersedes] if item.supersedes in keys else old[item.supersedes].item_key
                superseded.append({"key": old_key, "by": item.item_id})
                self._log(ChangeKind.ITEM_STALE, old_key)
            self._log(ChangeKind.ITEM_ADDED, key)
        await self._insert_superseding(item_rows, superseded)
        for start in range(0, len(passages), PASSAGES_AT_A_TIME):
            part = passages[start : start + PASSAGES_AT_A_TIME]
            tokenized = await asyncio.to_thread(_passage_rows, part)
            await self._connection.execute(insert(schema.passages), tokenized)

    async def _insert_superseding(
        self, item_rows: list[dict[str, object]], superseded: list[dict[str, object]]
    ) -> None:
        """Rows first as if superseded already: two live rows of one source never exist, not even in between."""
        within = {row["key"]: row["by"] for row in superseded}
        for row in item_rows:
            row["superseded_by"] = within.pop(row["item_key"], None)
        if within:
            statement = (
                update(schema.items)
                .where(schema.items.c.item_key == bindparam("key"))
                .values(superseded_by=bindparam("by"))
            )
            await self._connection.execute(statement, [{"key": key, "by": by} for key, by in within.items()])
        await self._connection.execute(insert(schema.items), item_rows)

    async def refresh(self, fetched: Mapping[ItemId, datetime]) -> None:
        """Set `fetched_at` of unchanged items."""
        if not fetched:
            return
        statement = (
            update(schema.items)
            .where(schema.items.c.workspace == self._workspace, schema.items.c.item_id == bindparam("id"))
            .values(fetched_at=bindparam("at"))
        )
        await self._connection.execute(statement, [{"id": key, "at": at} for key, at in fetched.items()])

    async def retire(self, item_id: ItemId, at: datetime) -> None:
        """Mark an item retired and log it, unless it was stale before."""
        await self._mark_stale(item_id, {"retired_at": at})

    async def supersede(self, item_id: ItemId, by: ItemId) -> None:
        """Point an item at its successor and log it, unless it was stale before."""
        await self._mark_stale(item_id, {"superseded_by": by})

    async def _mark_stale(self, item_id: ItemId, values: Mapping[str, object]) -> None:
        statement = (
            update(schema.items)
            .where(schema.items.c.workspace == self._workspace, schema.items.c.item_id == item_id)
            .values(**values)
            .returning(schema.items.c.item_key, schema.items.c.retired_at, schema.items.c.superseded_by)
        )
        row = (await self._connection.execute(statement)).one()
        if row.retired_at is None or row.superseded_by is None:  # it was live: an item leaves an index once
            self._log(ChangeKind.ITEM_STALE, row.item_key)

    async def replace_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Replace the workspace's whole vocabulary and log it."""
        w = self._workspace
        parts: tuple[tuple[Table, list[dict[str, object]]], ...] = (
            (
                schema.systems,
                [
                    {
                        "workspace": w,
                        "system_id": system.system_id,
                        "name": system.name,
                        "operation_type": system.operation_type,
                        "material": system.material,
                        "interior_exterior": system.interior_exterior,
                        "use_cases": list(system.use_cases),
                        "retired_at": system.retired_at,
                    }
                    for system in vocabulary.systems
                ],
            ),
            (
                schema.attributes,
                [
                    {"workspace": w, "attribute_id": attribute.attribute_id, "name": attribute.name}
                    for attribute in vocabulary.attributes
                ],
            ),
            (
                schema.factors,
                [
                    {"workspace": w, "factor_id": factor.factor_id, "name": factor.name}
                    for factor in vocabulary.factors
                ],
            ),
            (
                schema.options,
                [
                    {
                        "workspace": w,
                        "option_id": option.option_id,
                        "factor_id": option.factor_id,
                        "label": option.label,
                        "value": option.value,
                        "attribute_ids": list(option.attribute_ids),
                    }
                    for option in vocabulary.options
                ],
            ),
        )
        for table, values in parts:
            await self._connection.execute(delete(table).where(table.c.workspace == w))
            if values:
                await self._connection.execute(insert(table), values)
        self._log(ChangeKind.VOCABULARY_CHANGED, None)

    async def facet_exists(self, facet: Facet) -> bool:
        """Whether the vocabulary has the facet."""
        table, column = (
            (schema.factors, schema.factors.c.factor_id)
            if facet.type is FacetType.FACTOR
            else (schema.attributes, schema.attributes.c.attribute_id)
        )
        statement = select(column).where(table.c.workspace == self._workspace, column == facet.id)
        return (await self._connection.execute(statement)).first() is not None

    async def tag(self, tag_id: str) -> FacetTag | None:
        """One tag with its events."""
        snapshot = SqlSnapshot(self._connection, self._counters.seq, self._nonce, self._live)
        return await snapshot.tag(self._workspace, tag_id)

    async def item_tags(self, item_ids: Sequence[ItemId]) -> Sequence[FacetTag]:
        """All tags of the items, without events."""
        statement = (
            select(schema.facet_tags, schema.items.c.item_id)
            .join(schema.items, schema.items.c.item_key == schema.facet_tags.c.item_key)
            .where(schema.facet_tags.c.workspace == self._workspace, schema.items.c.item_id.in_(item_ids))
            .order_by(schema.facet_tags.c.tag_id)
        )
        return [rows.facet_tag(row) for row in (await self._connection.execute(statement)).all()]

    async def put_tag(self, tag: FacetTag, event: TagEvent) -> None:
        """Store a tag's status and append the event that led to it, and log it."""
        where = and_(
            schema.facet_tags.c.workspace == self._workspace, schema.facet_tags.c.tag_id == tag.tag_id
        )
        changed = await self._connection.execute(
            update(schema.facet_tags).where(where).values(status=tag.status.value)
        )
        if changed.rowcount == 0:
            key = (await self.heads([tag.item_id]))[tag.item_id].item_key
            await self._connection.execute(
                insert(schema.facet_tags),
                {
                    "workspace": self._workspace,
                    "tag_id": tag.tag_id,
                    "item_key": key,
                    "facet_type": tag.facet.type.value,
                    "facet_id": tag.facet.id,
                    "status": tag.status.value,
                },
            )
        await self._connection.execute(
            insert(schema.facet_tag_events),
            {
                "workspace": self._workspace,
                "tag_id": tag.tag_id,
                "step": len(tag.events),
                "before": None if event.before is None else event.before.value,
                "after": event.after.value,
                "by": event.by,
                "at": event.at,
            },
        )
        self._log(ChangeKind.TAG_CHANGED, None)

    async def mark_ingest(self, mark: IngestMark) -> None:
        """Remember how far an ingest has come."""
        values = {
            "digest": mark.digest,
            "done": mark.done,
            "finished": mark.finished,
            "item_id": mark.item_id,
            "at": self._now,
        }
        where = and_(
            schema.ingest_progress.c.workspace == self._workspace,
            schema.ingest_progress.c.name_hash == mark.name_hash,
        )
        changed = await self._connection.execute(update(schema.ingest_progress).where(where).values(**values))
        if changed.rowcount == 0:
            key = {"workspace": self._workspace, "name_hash": mark.name_hash}
            await self._connection.execute(insert(schema.ingest_progress), {**key, **values})

    async def request_rebuild(self) -> None:
        """Log that every derived index of the workspace is to be rebuilt from the rows."""
        self._log(ChangeKind.REBUILD, None)

    async def flush(self) -> int:
        """Write the change log and the counters; the new head. Called once, before the commit."""
        if self._changes:
            number = await self._newest_number()
            numbered = [{**change, "number": number + n} for n, change in enumerate(self._changes, start=1)]
            await self._connection.execute(insert(schema.change_log), numbered)
            await self._connection.execute(
                update(schema.counter)
                .where(schema.counter.c.id == 1)
                .values(
                    seq=self._counters.seq,
                    item_key=self._counters.item_key,
                    passage_key=self._counters.passage_key,
                )
            )
        return self._counters.seq

    async def _newest_number(self) -> int:
        """The number of the workspace's newest change; 0 before the first."""
        found = await self._connection.execute(select(newest_number(self._workspace)))
        return int(found.scalar_one() or 0)

    def _next_item_keys(self, count: int) -> range:
        first = self._counters.item_key + 1
        self._counters.item_key += count
        return range(first, first + count)

    def _next_passage_key(self) -> int:
        self._counters.passage_key += 1
        return self._counters.passage_key

    def _log(self, kind: ChangeKind, item_key: int | None) -> None:
        self._counters.seq += 1
        self._changes.append(
            {
                "seq": self._counters.seq,
                "workspace": self._workspace,
                "kind": kind.value,
                "item_key": item_key,
                "at": self._now,
                "nonce": self._nonce,
            }
        )


def _passage_rows(passages: Sequence[tuple[int, int, PassageText]]) -> list[dict[str, object]]:
    return [rows.passage_row(key, item_key, passage) for key, item_key, passage in passages]
