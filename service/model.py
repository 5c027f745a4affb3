"""The nouns: items, passages, vocabulary, facet tags and what a retrieval answers with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NewType

ItemId = NewType("ItemId", str)
Workspace = NewType("Workspace", str)

DEFAULT_WORKSPACE = Workspace("default")
DEFAULT_LIMIT = 8
MAX_LIMIT = 200


class ContentType(StrEnum):
    """What kind of document an item is."""

    PDP = "pdp"
    BLOG = "blog"
    TECH_DOC = "tech-doc"
    MARKETING = "marketing"


class SourceType(StrEnum):
    """Where a capture came from."""

    URL = "url"
    UPLOAD = "upload"


class FacetType(StrEnum):
    """What a facet tag points at."""

    FACTOR = "factor"
    ATTRIBUTE = "attribute"


class TagStatus(StrEnum):
    """A tag is proposed until a person accepts or rejects it."""

    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


class ChangeKind(StrEnum):
    """What an entry of the change log says happened."""

    ITEM_ADDED = "item_added"
    ITEM_STALE = "item_stale"
    TAG_CHANGED = "tag_changed"
    VOCABULARY_CHANGED = "vocabulary_changed"
    REBUILD = "rebuild"


@dataclass(frozen=True, slots=True)
class PassageText:
    """One passage of a document. `heading` is its heading path, or None.

    A passage that is not `scorable` (a link stub) is stored and never ranked.
    """

    seq: int
    heading: str | None
    text: str
    scorable: bool = True


@dataclass(frozen=True, slots=True)
class Source:
    """The identity of a document inside its workspace: a URL or an uploaded file's name."""

    type: SourceType
    url: str | None
    filename: str | None

    @property
    def key(self) -> str:
        """`url:…` or `upload:…`; equal keys are the same source."""
        return f"{self.type.value}:{self.url if self.type is SourceType.URL else self.filename}"


@dataclass(frozen=True, slots=True)
class Capture:
    """One reading of a source, ready to be stored. Passages are in document order."""

    title: str
    content_type: ContentType
    source: Source
    version: str
    passages: tuple[PassageText, ...]
    item_id: ItemId | None = None
    source_url_ok: bool | None = None
    resource_types: tuple[str, ...] | None = None
    fetched_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """What storing a capture did. `unchanged` means that only `fetched_at` was refreshed."""

    item_id: ItemId
    superseded: ItemId | None
    unchanged: bool
    passages: int


@dataclass(frozen=True, slots=True)
class Provenance:
    """Everything needed to cite a passage of this item; `fetched_at` is aware UTC."""

    item_id: ItemId
    title: str
    content_type: ContentType
    source_type: SourceType
    source_url: str | None
    source_url_ok: bool | None
    source_filename: str | None
    resource_types: tuple[str, ...] | None
    version: str
    fetched_at: datetime


@dataclass(frozen=True, slots=True)
class Item:
    """A stored document. Stale when retired or superseded."""

    provenance: Provenance
    content_hash: str
    retired_at: datetime | None
    superseded_by: ItemId | None
    passages: tuple[PassageText, ...] = ()


@dataclass(frozen=True, slots=True)
class System:
    """A product system; its words are the query of the by-system arm, retired or not."""

    system_id: str
    name: str
    operation_type: str | None = None
    material: str | None = None
    interior_exterior: str | None = None
    use_cases: tuple[str, ...] = ()
    retired_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Attribute:
    """A property that options influence and items may be tagged with."""

    attribute_id: str
    name: str


@dataclass(frozen=True, slots=True)
class Factor:
    """A question a buyer answers by picking one of its options."""

    factor_id: str
    name: str


@dataclass(frozen=True, slots=True)
class Option:
    """One answer to a factor, with the attributes it influences."""

    option_id: str
    factor_id: str
    label: str
    value: str | None = None
    attribute_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The whole vocabulary of a workspace."""

    systems: tuple[System, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    factors: tuple[Factor, ...] = ()
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class SelectionContext:
    """What a buyer chose; the recommendation engine's own input type."""

    option_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class Facet:
    """A factor or an attribute, as selections imply them and tags name them."""

    type: FacetType
    id: str


@dataclass(frozen=True, slots=True)
class SelectedOption:
    """A chosen option with the names its terms come from."""

    option: Option
    factor_name: str
    attribute_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TagEvent:
    """One step in a tag's life. `before` is None for the proposal itself."""

    before: TagStatus | None
    after: TagStatus
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class FacetTag:
    """A classification of an item under a facet, with its history (oldest first)."""

    tag_id: str
    item_id: ItemId
    facet: Facet
    status: TagStatus
    events: tuple[TagEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class TermMatch:
    """How one query term matched a passage; scores are already multiplied by the term's idf."""

    term: str
    idf: float
    in_title: bool
    in_heading: bool
    body_count: int
    score: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a passage stands where it stands; parts sum to `lexical_score + tag_boost`."""

    lexical_rank: int | None
    lexical_score: float
    matches: tuple[TermMatch, ...]
    tag_boost: float = 0.0
    matched_facets: tuple[Facet, ...] = ()
    vector_rank: int | None = None
    vector_score: float | None = None
    fusion: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RetrievedPassage:
    """One ranked passage, citable from its own fields. `score` compares within one answer only."""

    passage_id: str
    heading: str | None
    seq: int
    text: str
    score: float
    provenance: Provenance
    explain: Explanation | None = None


def passage_id(item_id: ItemId, seq: int) -> str:
    """The public name of a passage: stable across databases, indexes and rebuilds."""
    return f"{item_id}#{seq}"
