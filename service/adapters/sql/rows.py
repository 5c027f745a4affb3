"""Rows to domain values and back."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeAlias

from sqlalchemy import Row

from service.adapters.sql import schema
from service.core.capture_rules import ItemHead
from service.core.scoring import ScorablePassage
from service.core.tokenize import stored_tokens
from service.model import (
    Capture,
    ContentType,
    Facet,
    FacetTag,
    FacetType,
    Item,
    ItemId,
    Option,
    PassageText,
    Provenance,
    SourceType,
    System,
    TagEvent,
    TagStatus,
)
from service.ports.store import Candidate, IndexablePassage, PassageKey

# A row's attributes are known to the database only; each function here says which columns it reads.
AnyRow: TypeAlias = Row[Any] | Row[*tuple[Any, ...]]

PROVENANCE_COLUMNS = (
    schema.items.c.item_id,
    schema.items.c.title,
    schema.items.c.content_type,
    schema.items.c.source_type,
    schema.items.c.source_url,
    schema.items.c.source_url_ok,
    schema.items.c.source_filename,
    schema.items.c.resource_types,
    schema.items.c.version,
    schema.items.c.fetched_at,
)
ITEM_COLUMNS = (
    *PROVENANCE_COLUMNS,
    schema.items.c.content_hash,
    schema.items.c.retired_at,
    schema.items.c.superseded_by,
)
HEAD_COLUMNS = (
    schema.items.c.item_id,
    schema.items.c.item_key,
    schema.items.c.source_hash,
    schema.items.c.content_hash,
    schema.items.c.retired_at,
    schema.items.c.superseded_by,
)
CANDIDATE_COLUMNS = (
    schema.passages.c.passage_key,
    schema.items.c.item_id,
    schema.passages.c.seq,
    schema.items.c.title_terms,
    schema.passages.c.heading_terms,
    schema.passages.c.body_terms,
    schema.passages.c.body_length,
)
INDEXABLE_COLUMNS = (
    schema.passages.c.passage_key,
    schema.items.c.content_type,
    schema.items.c.title_terms,
    schema.passages.c.heading_terms,
    schema.passages.c.body_terms,
    schema.passages.c.body_length,
)


def candidate(row: Sequence[object]) -> Candidate:
    """A row of CANDIDATE_COLUMNS; positional, since a read builds hundreds."""
    key, item_id, seq, title, heading, body, length = row
    return Candidate(
        PassageKey(key),  # type: ignore[arg-type]
        ScorablePassage(item_id, seq, title, heading, body, length),  # type: ignore[arg-type]
    )


def indexable(row: AnyRow) -> IndexablePassage:
    """A row that holds INDEXABLE_COLUMNS."""
    return IndexablePassage(
        key=PassageKey(row.passage_key),
        content_type=ContentType(row.content_type),
        title=row.title_terms,
        heading=row.heading_terms,
        body=row.body_terms,
        length=row.body_length,
    )


def provenance(row: AnyRow) -> Provenance:
    """A row that holds PROVENANCE_COLUMNS."""
    return Provenance(
        item_id=ItemId(row.item_id),
        title=row.title,
        content_type=ContentType(row.content_type),
        source_type=SourceType(row.source_type),
        source_url=row.source_url,
        source_url_ok=row.source_url_ok,
        source_filename=row.source_filename,
        resource_types=None if row.resource_types is None else tuple(row.resource_types),
        version=row.version,
        fetched_at=row.fetched_at,
    )


def item(row: AnyRow, texts: tuple[PassageText, ...] = ()) -> Item:
    """A row that holds ITEM_COLUMNS."""
    successor = None if row.superseded_by is None else ItemId(row.superseded_by)
    return Item(provenance(row), row.content_hash, row.retired_at, successor, texts)


def passage_text(row: AnyRow) -> PassageText:
    """A row that holds a passage's own columns."""
    return PassageText(row.seq, row.heading, row.text, row.scorable)


def head(row: AnyRow) -> ItemHead:
    """A row that holds HEAD_COLUMNS."""
    return ItemHead(
        item_id=ItemId(row.item_id),
        item_key=row.item_key,
        source_key_hash=row.source_hash,
        content_hash=row.content_hash,
        retired_at=row.retired_at,
        superseded_by=None if row.superseded_by is None else ItemId(row.superseded_by),
    )


def system(row: AnyRow) -> System:
    """A row of systems."""
    return System(
        system_id=row.system_id,
        name=row.name,
        operation_type=row.operation_type,
        material=row.material,
        interior_exterior=row.interior_exterior,
        use_cases=tuple(row.use_cases),
        retired_at=row.retired_at,
    )


def option(row: AnyRow) -> Option:
    """A row of factor options."""
    return Option(row.option_id, row.factor_id, row.label, row.value, tuple(row.attribute_ids))


def facet_tag(row: AnyRow, events: tuple[TagEvent, ...] = ()) -> FacetTag:
    """A row of facet tags joined with its item's id."""
    facet = Facet(FacetType(row.facet_type), row.facet_id)
    return FacetTag(row.tag_id, ItemId(row.item_id), facet, TagStatus(row.status), events)


def tag_event(row: AnyRow) -> TagEvent:
    """A row of facet tag events."""
    before = None if row.before is None else TagStatus(row.before)
    return TagEvent(before, TagStatus(row.after), row.by, row.at)


def item_row(
    key: int, workspace: str, item_id: ItemId, capture: Capture, hashes: tuple[str, str], fetched_at: datetime
) -> dict[str, object]:
    """The values of a new item; `hashes` are those of its source and of its content."""
    return {
        "item_key": key,
        "workspace": workspace,
        "item_id": item_id,
        "title": capture.title,
        "title_terms": stored_tokens(capture.title)[0],
        "content_type": capture.content_type.value,
        "source_type": capture.source.type.value,
        "source_url": capture.source.url,
        "source_filename": capture.source.filename,
        "source_hash": hashes[0],
        "source_url_ok": capture.source_url_ok,
        "resource_types": None if capture.resource_types is None else list(capture.resource_types),
        "version": capture.version,
        "fetched_at": fetched_at,
        "content_hash": hashes[1],
        "retired_at": None,
        "superseded_by": None,
    }


def passage_row(key: int, item_key: int, passage: PassageText) -> dict[str, object]:
    """The values of a new passage, its tokens with them."""
    body, length = stored_tokens(passage.text)
    return {
        "passage_key": key,
        "item_key": item_key,
        "seq": passage.seq,
        "heading": passage.heading,
        "text": passage.text,
        "scorable": passage.scorable,
        "heading_terms": stored_tokens(passage.heading or "")[0],
        "body_terms": body,
        "body_length": length,
    }
