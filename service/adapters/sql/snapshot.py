"""One consistent view of the rows: where staleness, workspace and filters are decided."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from sqlalchemy import ColumnElement, Select, Table, and_, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from service.adapters.sql import rows, schema
from service.adapters.sql.live_rows import JOINED, LIVE, LiveRows, own_workspace
from service.model import (
    Attribute,
    ContentType,
    Facet,
    FacetTag,
    FacetType,
    Factor,
    Item,
    ItemId,
    SelectedOption,
    System,
    TagStatus,
    Vocabulary,
    Workspace,
)
from service.ports.store import Candidate, IndexablePassage, PassageKey, PresentablePassage

T = TypeVar("T")
IN_CHUNK = 5_000  # ids in one statement; both engines allow several times as many
ITEM_CHUNK = 200  # items whose passages are read together


class SqlSnapshot:
    """Reads inside one open transaction. Implements ReadSnapshot."""

    def __init__(self, connection: AsyncConnection, seq: int, nonce: int, live: LiveRows) -> None:
        self._connection = connection
        self._seq = seq
        self._nonce = nonce
        self._live = live

    @property
    def seq(self) -> int:
        """The change-log sequence this snapshot shows."""
        return self._seq

    @property
    def nonce(self) -> int:
        """Which history that sequence number belongs to."""
        return self._nonce

    async def corpus(self, workspace: Workspace) -> int:
        """How many changes the workspace has seen."""
        return await self._live.corpus(self._connection, workspace)

    async def candidates(
        self, workspace: Workspace, keys: Sequence[int], content_type: ContentType | None
    ) -> Sequence[Candidate]:
        """The live scorable passages among `keys`."""
        if not keys:
            return ()
        return await self._live.candidates(self._connection, workspace, keys, content_type)

    async def named_keys(
        self, workspace: Workspace, names: Sequence[tuple[ItemId, int]], content_type: ContentType | None
    ) -> Mapping[tuple[ItemId, int], PassageKey]:
        """The keys of the live scorable passages among (item id, seq) names."""
        if not names:
            return {}
        return await self._live.named(self._connection, workspace, names, content_type)

    async def item_candidates(
        self, workspace: Workspace, item_ids: Sequence[ItemId], content_type: ContentType | None, bound: int
    ) -> Sequence[Candidate]:
        """Whole items in the given order while they fit `bound`; the last one is cut at it."""
        found: list[Candidate] = []
        for chunk in _chunks(item_ids, ITEM_CHUNK):
            left = bound - len(found)
            statement = _candidates(_of(workspace), content_type).where(schema.items.c.item_id.in_(chunk))
            fitting = await self._rows(statement.limit(left + 1))
            if len(fitting) > left:
                return [*found, *await self._cut_candidates(statement, chunk, left)]
            order = {item_id: place for place, item_id in enumerate(chunk)}
            candidates = [rows.candidate(row) for row in fitting]
            candidates.sort(key=lambda c: (order[c.passage.item_id], c.passage.seq))
            found += candidates
        return found

    async def _cut_candidates(
        self, statement: Select[tuple[object, ...]], item_ids: Sequence[ItemId], bound: int
    ) -> Sequence[Candidate]:
        """Item by item, for items that have more passages than are wanted."""
        found: list[Candidate] = []
        for item_id in item_ids:
            of_item = statement.where(schema.items.c.item_id == item_id).order_by(schema.passages.c.seq)
            found += [rows.candidate(row) for row in await self._rows(of_item.limit(bound - len(found)))]
            if len(found) >= bound:
                break
        return found

    async def scan(
        self, workspace: Workspace, after: PassageKey | None, limit: int
    ) -> Sequence[IndexablePassage]:
        """The next live scorable passages in key order."""
        statement = (
            select(*rows.INDEXABLE_COLUMNS)
            .select_from(JOINED)
            .where(own_workspace == workspace, LIVE, schema.passages.c.scorable)
            .order_by(schema.passages.c.passage_key)
            .limit(limit)
        )
        if after is not None:
            statement = statement.where(schema.passages.c.passage_key > after)
        return [rows.indexable(row) for row in await self._rows(statement)]

    async def passages(self, keys: Sequence[PassageKey]) -> Mapping[PassageKey, PresentablePassage]:
        """What to show of passages that `candidates` returned."""
        return await self._live.shown(self._connection, keys)

    async def count_scorable(self, workspace: Workspace, bound: int) -> int:
        """How many live scorable passages there are, counted no further than `bound`."""
        inner = (
            select(schema.passages.c.passage_key)
            .select_from(JOINED)
            .where(schema.items.c.workspace == workspace, LIVE, schema.passages.c.scorable)
            .limit(bound)
        )
        return int(
            (await self._connection.execute(select(func.count()).select_from(inner.subquery()))).scalar_one()
        )

    async def system(self, workspace: Workspace, system_id: str) -> System | None:
        """A system, retired or not."""
        statement = select(schema.systems).where(
            schema.systems.c.workspace == workspace, schema.systems.c.system_id == system_id
        )
        found = (await self._connection.execute(statement)).first()
        return None if found is None else rows.system(found)

    async def selected_options(
        self, workspace: Workspace, option_ids: Sequence[str]
    ) -> Sequence[SelectedOption]:
        """The known ones among the options, in option id order."""
        options = [
            rows.option(row)
            for chunk in _chunks(sorted(set(option_ids)))
            for row in await self._rows(
                select(schema.options)
                .where(schema.options.c.workspace == workspace, schema.options.c.option_id.in_(chunk))
                .order_by(schema.options.c.option_id)
            )
        ]
        if not options:
            return []
        factors = {row.factor_id: row.name for row in await self._rows(_all_of(schema.factors, workspace))}
        attributes = {
            row.attribute_id: row.name for row in await self._rows(_all_of(schema.attributes, workspace))
        }
        return [
            SelectedOption(
                option,
                factors.get(option.factor_id, ""),
                tuple(attributes[a] for a in option.attribute_ids if a in attributes),
            )
            for option in options
        ]

    async def tags_of_facets(self, workspace: Workspace, facets: Sequence[Facet]) -> Sequence[FacetTag]:
        """Accepted tags of live items under the facets."""
        found: list[FacetTag] = []
        for kind in FacetType:
            ids = [facet.id for facet in facets if facet.type is kind]
            for chunk in _chunks(ids):  # not one OR per facet: SQLite bounds the depth of an expression
                statement = _tags(workspace).where(
                    schema.facet_tags.c.facet_type == kind.value,
                    schema.facet_tags.c.facet_id.in_(chunk),
                    LIVE,
                    schema.facet_tags.c.status == TagStatus.ACCEPTED.value,
                )
                found += [rows.facet_tag(row) for row in await self._rows(statement)]
        return found

    async def item(self, workspace: Workspace, item_id: ItemId) -> Item | None:
        """A whole item, stale or not, passages in order."""
        statement = select(schema.items.c.item_key, *rows.ITEM_COLUMNS).where(_is_item(workspace, item_id))
        found = (await self._connection.execute(statement)).first()
        if found is None:
            return None
        texts = await self._rows(
            select(schema.passages)
            .where(schema.passages.c.item_key == found.item_key)
            .order_by(schema.passages.c.seq)
        )
        return rows.item(found, tuple(rows.passage_text(row) for row in texts))

    async def supersession(self, workspace: Workspace, item_id: ItemId) -> Sequence[Item]:
        """The chain through an item, oldest first: its predecessors by number of steps, itself, its successors."""
        here = await self._item_head(workspace, item_id)
        if here is None:
            return []
        earlier: list[Item] = []
        wave, seen = [item_id], {item_id}
        while wave:
            statement = (
                select(*rows.ITEM_COLUMNS)
                .where(schema.items.c.workspace == workspace, schema.items.c.superseded_by.in_(wave))
                .order_by(schema.items.c.item_id)
            )
            found = [rows.item(row) for row in await self._rows(statement)]
            wave = [item.provenance.item_id for item in found if item.provenance.item_id not in seen]
            seen.update(wave)
            earlier += found
        chain = [*reversed(earlier), here]
        while (successor := chain[-1].superseded_by) is not None and successor not in seen:
            seen.add(successor)
            following = await self._item_head(workspace, successor)
            if following is None:
                break
            chain.append(following)
        return chain

    async def vocabulary(self, workspace: Workspace) -> Vocabulary:
        """The whole vocabulary, each part in id order."""
        systems = await self._rows(_all_of(schema.systems, workspace))
        attributes = await self._rows(_all_of(schema.attributes, workspace))
        factors = await self._rows(_all_of(schema.factors, workspace))
        options = await self._rows(_all_of(schema.options, workspace))
        return Vocabulary(
            systems=tuple(rows.system(row) for row in systems),
            attributes=tuple(Attribute(row.attribute_id, row.name) for row in attributes),
            factors=tuple(Factor(row.factor_id, row.name) for row in factors),
            options=tuple(rows.option(row) for row in options),
        )

    async def tags(
        self,
        workspace: Workspace,
        item_id: ItemId | None,
        status: TagStatus | None,
        after: str | None,
        limit: int,
    ) -> Sequence[FacetTag]:
        """Tags with their events, in tag id order, after a tag id."""
        statement = _tags(workspace).order_by(schema.facet_tags.c.tag_id).limit(limit)
        if item_id is not None:
            statement = statement.where(schema.items.c.item_id == item_id)
        if status is not None:
            statement = statement.where(schema.facet_tags.c.status == status.value)
        if after is not None:
            statement = statement.where(schema.facet_tags.c.tag_id > after)
        return await self._with_events(workspace, await self._rows(statement))

    async def tag(self, workspace: Workspace, tag_id: str) -> FacetTag | None:
        """One tag with its events."""
        statement = _tags(workspace).where(schema.facet_tags.c.tag_id == tag_id)
        found = await self._with_events(workspace, await self._rows(statement))
        return found[0] if found else None

    async def _with_events(self, workspace: Workspace, found: Sequence[rows.AnyRow]) -> list[FacetTag]:
        ids = [row.tag_id for row in found]
        statement = (
            select(schema.facet_tag_events)
            .where(
                schema.facet_tag_events.c.workspace == workspace, schema.facet_tag_events.c.tag_id.in_(ids)
            )
            .order_by(schema.facet_tag_events.c.step)
        )
        events = [(row.tag_id, rows.tag_event(row)) for row in await self._rows(statement)]
        return [
            rows.facet_tag(row, tuple(event for tag_id, event in events if tag_id == row.tag_id))
            for row in found
        ]

    async def _item_head(self, workspace: Workspace, item_id: ItemId) -> Item | None:
        statement = select(*rows.ITEM_COLUMNS).where(_is_item(workspace, item_id))
        found = (await self._connection.execute(statement)).first()
        return None if found is None else rows.item(found)

    async def _rows(self, statement: Select[tuple[object, ...]]) -> Sequence[rows.AnyRow]:
        return (await self._connection.execute(statement)).all()


def _of(workspace: Workspace) -> ColumnElement[bool]:
    return schema.items.c.workspace == workspace


def _candidates(
    of_workspace: ColumnElement[bool], content_type: ContentType | None
) -> Select[tuple[object, ...]]:
    statement = (
        select(*rows.CANDIDATE_COLUMNS)
        .select_from(JOINED)
        .where(of_workspace, LIVE, schema.passages.c.scorable)
    )
    if content_type is not None:
        statement = statement.where(schema.items.c.content_type == content_type.value)
    return statement


def _tags(workspace: Workspace) -> Select[tuple[object, ...]]:
    return (
        select(schema.facet_tags, schema.items.c.item_id)
        .join(schema.items, schema.items.c.item_key == schema.facet_tags.c.item_key)
        .where(schema.facet_tags.c.workspace == workspace)
    )


def _all_of(table: Table, workspace: Workspace) -> Select[tuple[object, ...]]:
    return select(table).where(table.c.workspace == workspace).order_by(*table.primary_key.columns)


def _is_item(workspace: Workspace, item_id: ItemId) -> ColumnElement[bool]:
    return and_(schema.items.c.workspace == workspace, schema.items.c.item_id == item_id)


def _chunks(values: Sequence[T], size: int = IN_CHUNK) -> Iterator[Sequence[T]]:
    return (values[start : start + size] for start in range(0, len(values), size))
