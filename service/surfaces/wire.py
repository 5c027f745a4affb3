"""The JSON forms that every surface shares, and their translation from and to the domain.

Bounds that msgspec states apply when decoding only; the domain checks again, so that a surface that builds
these structs itself cannot get round them. What a retrieval answers with is in `service.surfaces.envelope`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeVar

import msgspec

from service.errors import InvalidInput, InvalidLimit, InvalidText, UnknownContentType
from service.model import (
    MAX_LIMIT,
    Attribute,
    Capture,
    CaptureResult,
    ContentType,
    Explanation,
    Facet,
    FacetTag,
    Factor,
    Item,
    ItemId,
    Option,
    PassageText,
    Provenance,
    RetrievedPassage,
    Source,
    SourceType,
    System,
    Vocabulary,
)

T = TypeVar("T")
SUMMARY_CHARS = 280
MAX_DETAIL = 300  # characters; a decoder's message may quote what was submitted
_AT = re.compile(r" - at `\$\.?(?P<place>[^`]*)`$")
_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
_NOT_UTF8 = "Invalid UTF-8"

# An index key of PostgreSQL holds less than 2,700 bytes; a character takes up to four.
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
ContentTypeName = Literal["pdp", "blog", "tech-doc", "marketing"]
SourceTypeName = Literal["url", "upload"]
FacetTypeName = Literal["factor", "attribute"]


class PassageIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One passage of a capture."""

    text: str
    heading: str | None = None
    seq: int | None = None
    scorable: bool = True


class CaptureIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A capture: metadata plus either `passages` or `text` with its `format`."""

    title: str
    content_type: ContentTypeName
    source_type: SourceTypeName
    version: str
    item_id: str | None = None
    source_url: str | None = None
    source_filename: str | None = None
    source_url_ok: bool | None = None
    resource_types: list[str] | None = None
    fetched_at: datetime | None = None
    passages: list[PassageIn] | None = None
    text: str | None = None
    format: Literal["markdown", "html", "text"] | None = None


class SystemIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A product system."""

    system_id: Id
    name: str
    operation_type: str | None = None
    material: str | None = None
    interior_exterior: str | None = None
    use_cases: list[str] = []
    retired_at: datetime | None = None


class AttributeIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An attribute."""

    attribute_id: Id
    name: str


class FactorIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A factor."""

    factor_id: Id
    name: str


class OptionIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An option of a factor."""

    option_id: Id
    factor_id: Id
    label: str
    value: str | None = None
    attribute_ids: list[str] = []


class VocabularyIn(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The whole vocabulary of a workspace."""

    systems: list[SystemIn] = []
    attributes: list[AttributeIn] = []
    factors: list[FactorIn] = []
    options: list[OptionIn] = []


class ProvenanceOut(msgspec.Struct, kw_only=True):
    """Where a passage comes from."""

    item_id: str
    title: str
    content_type: str
    source_type: str
    source_url: str | None
    source_url_ok: bool | None
    source_filename: str | None
    resource_types: list[str] | None
    version: str
    fetched_at: str


class TermMatchOut(msgspec.Struct, kw_only=True):
    """How one query term matched."""

    term: str
    idf: float
    in_title: bool
    in_heading: bool
    body_count: int
    score: float


class FacetOut(msgspec.Struct, kw_only=True):
    """A facet that an accepted tag and the selection share."""

    facet_type: str
    facet_id: str


class ExplainOut(msgspec.Struct, kw_only=True):
    """Why a hit stands where it stands."""

    lexical_rank: int | None
    lexical_score: float
    matches: list[TermMatchOut]
    tag_boost: float
    matched_facets: list[FacetOut]
    vector_rank: int | None
    vector_score: float | None
    fusion: dict[str, float]


class RetrievedPassageOut(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One hit. `text_truncated` stands only where the view cut the text."""

    passage_id: str
    heading: str | None
    seq: int
    text: str
    score: float
    provenance: ProvenanceOut
    text_truncated: bool = False
    explain: ExplainOut | None = None


class CaptureOut(msgspec.Struct, kw_only=True):
    """What storing a capture did."""

    item_id: str
    superseded: str | None
    unchanged: bool
    passages: int


class PassageOut(msgspec.Struct, kw_only=True):
    """A stored passage."""

    seq: int
    heading: str | None
    text: str
    scorable: bool


class ItemOut(msgspec.Struct, kw_only=True):
    """A stored item, with `stale` decided."""

    item_id: str
    title: str
    content_type: str
    source_type: str
    source_url: str | None
    source_url_ok: bool | None
    source_filename: str | None
    resource_types: list[str] | None
    version: str
    fetched_at: str
    content_hash: str
    stale: bool
    retired_at: str | None
    superseded_by: str | None
    passages: list[PassageOut] | None = None


class TagEventOut(msgspec.Struct, kw_only=True):
    """One step in a tag's life."""

    before: str | None
    after: str
    by: str
    at: str


class TagOut(msgspec.Struct, kw_only=True):
    """A facet tag with its history."""

    tag_id: str
    item_id: str
    facet_type: str
    facet_id: str
    status: str
    events: list[TagEventOut]


def utc_text(moment: datetime) -> str:
    """ISO 8601 in UTC with Z."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def decode_capture(line: bytes) -> CaptureIn:
    """One JSON capture. Raises InvalidInput, InvalidText, UnknownContentType."""
    return decode_json(line, CaptureIn)


def decode_json(data: bytes, kind: type[T]) -> T:
    """One JSON value of a wire type, strictly: no number for a text, no fraction for a whole number.

    Raises InvalidInput, InvalidText, InvalidLimit, UnknownContentType.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise _refusal(str(error)) from error
    except msgspec.DecodeError as error:
        if _NOT_UTF8 in str(error):
            raise InvalidText("the JSON is not UTF-8") from error
        if _HALF_PAIR.search(data):
            raise InvalidText("the JSON is damaged or holds half of a surrogate pair") from error
        raise InvalidInput(f"this is not JSON: {_short(str(error))}") from error


def _refusal(message: str) -> InvalidInput:
    """The error for a value of the wrong type or out of bounds, by where it stands."""
    found = _AT.search(message)
    place = (found["place"] or None) if found else None
    if place == "limit":
        return limit_refused()
    if place == "content_type":
        return content_type_refused()
    return InvalidInput(_short(message), field=place)


def limit_refused() -> InvalidLimit:
    """The error for a limit that no page can have, in whatever form it came."""
    return InvalidLimit(f"limit must be a whole number from 1 to {MAX_LIMIT}", field="limit")


def content_type_refused() -> UnknownContentType:
    """The error for a content type that is none of the four."""
    known = ", ".join(kind.value for kind in ContentType)
    return UnknownContentType(f"content_type must be one of {known}", field="content_type")


def _short(message: str) -> str:
    return message if len(message) <= MAX_DETAIL else f"{message[:MAX_DETAIL]}…"


def content_type(name: str | None) -> ContentType | None:
    """A content type by name. Raises UnknownContentType."""
    if name is None:
        return None
    try:
        return ContentType(name)
    except ValueError as error:
        raise content_type_refused() from error


def capture_of(body: CaptureIn, passages: tuple[PassageText, ...] | None = None) -> Capture:
    """The capture a body describes, with `passages` where they were split from its text."""
    return Capture(
        title=body.title,
        content_type=ContentType(body.content_type),
        source=Source(SourceType(body.source_type), body.source_url, body.source_filename),
        version=body.version,
        passages=_passages(body.passages or []) if passages is None else passages,
        item_id=None if body.item_id is None else ItemId(body.item_id),
        source_url_ok=body.source_url_ok,
        resource_types=None if body.resource_types is None else tuple(body.resource_types),
        fetched_at=_aware(body.fetched_at, "fetched_at"),
    )


def _passages(bodies: Sequence[PassageIn]) -> tuple[PassageText, ...]:
    """Passages in order; those without a seq are numbered by their place."""
    numbered = [
        PassageText(place if body.seq is None else body.seq, body.heading or None, body.text, body.scorable)
        for place, body in enumerate(bodies)
    ]
    return tuple(sorted(numbered, key=lambda passage: passage.seq))


def vocabulary_of(body: VocabularyIn) -> Vocabulary:
    """The vocabulary a body describes."""
    return Vocabulary(
        systems=tuple(
            System(
                s.system_id,
                s.name,
                s.operation_type,
                s.material,
                s.interior_exterior,
                tuple(s.use_cases),
                _aware(s.retired_at, "retired_at"),
            )
            for s in body.systems
        ),
        attributes=tuple(Attribute(a.attribute_id, a.name) for a in body.attributes),
        factors=tuple(Factor(f.factor_id, f.name) for f in body.factors),
        options=tuple(
            Option(o.option_id, o.factor_id, o.label, o.value, tuple(o.attribute_ids)) for o in body.options
        ),
    )


def vocabulary_out(vocabulary: Vocabulary) -> dict[str, list[dict[str, object]]]:
    """A vocabulary in the form that `PUT /v1/vocabulary` takes."""
    systems = [
        {**asdict(s), "retired_at": None if s.retired_at is None else utc_text(s.retired_at)}
        for s in vocabulary.systems
    ]
    return {
        "systems": systems,
        "attributes": [asdict(a) for a in vocabulary.attributes],
        "factors": [asdict(f) for f in vocabulary.factors],
        "options": [asdict(o) for o in vocabulary.options],
    }


def capture_out(result: CaptureResult) -> CaptureOut:
    """What storing a capture did."""
    return CaptureOut(
        item_id=result.item_id,
        superseded=result.superseded,
        unchanged=result.unchanged,
        passages=result.passages,
    )


def provenance_out(provenance: Provenance) -> ProvenanceOut:
    """The ten fields of a citation."""
    return ProvenanceOut(
        item_id=provenance.item_id,
        title=provenance.title,
        content_type=provenance.content_type.value,
        source_type=provenance.source_type.value,
        source_url=provenance.source_url,
        source_url_ok=provenance.source_url_ok,
        source_filename=provenance.source_filename,
        resource_types=None if provenance.resource_types is None else list(provenance.resource_types),
        version=provenance.version,
        fetched_at=utc_text(provenance.fetched_at),
    )


def passage_out(passage: RetrievedPassage, *, summary: bool = False) -> RetrievedPassageOut:
    """A hit, its text cut at a word when `summary` is asked for."""
    text = summary_of(passage.text) if summary else passage.text
    return RetrievedPassageOut(
        passage_id=passage.passage_id,
        heading=passage.heading,
        seq=passage.seq,
        text=text,
        score=passage.score,
        provenance=provenance_out(passage.provenance),
        text_truncated=text is not passage.text,
        explain=None if passage.explain is None else _explain_out(passage.explain),
    )


def summary_of(text: str) -> str:
    """The beginning of a text, at most SUMMARY_CHARS, cut between words where there is a gap."""
    if len(text) <= SUMMARY_CHARS:
        return text
    head = text[:SUMMARY_CHARS]
    return head[: head.rindex(" ")] if " " in head else head


def _explain_out(explanation: Explanation) -> ExplainOut:
    return ExplainOut(
        lexical_rank=explanation.lexical_rank,
        lexical_score=explanation.lexical_score,
        matches=[msgspec.convert(asdict(match), TermMatchOut) for match in explanation.matches],
        tag_boost=explanation.tag_boost,
        matched_facets=[facet_out(facet) for facet in explanation.matched_facets],
        vector_rank=explanation.vector_rank,
        vector_score=explanation.vector_score,
        fusion=dict(explanation.fusion),
    )


def facet_out(facet: Facet) -> FacetOut:
    """A facet."""
    return FacetOut(facet_type=facet.type.value, facet_id=facet.id)


def item_out(item: Item, *, passages: bool = True) -> ItemOut:
    """An item, with its passages where they are wanted."""
    source: Mapping[str, object] = msgspec.to_builtins(provenance_out(item.provenance))
    return msgspec.convert(
        {
            **source,
            "content_hash": item.content_hash,
            "stale": item.retired_at is not None or item.superseded_by is not None,
            "retired_at": None if item.retired_at is None else utc_text(item.retired_at),
            "superseded_by": item.superseded_by,
            "passages": [asdict(passage) for passage in item.passages] if passages else None,
        },
        ItemOut,
    )


def tag_out(tag: FacetTag) -> TagOut:
    """A facet tag with its history."""
    return TagOut(
        tag_id=tag.tag_id,
        item_id=tag.item_id,
        facet_type=tag.facet.type.value,
        facet_id=tag.facet.id,
        status=tag.status.value,
        events=[
            TagEventOut(
                before=None if event.before is None else event.before.value,
                after=event.after.value,
                by=event.by,
                at=utc_text(event.at),
            )
            for event in tag.events
        ],
    )


def _aware(moment: datetime | None, field: str) -> datetime | None:
    """The moment in UTC. Raises InvalidInput without a time zone, and for a moment that UTC's calendar lacks."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise InvalidInput(f"{field} needs a time zone", field=field)
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(f"{field} is out of range", field=field) from error
