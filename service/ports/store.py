"""The authoritative store, as the read and write use cases need it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import NewType, Protocol

from service.core.capture_rules import ItemHead
from service.core.scoring import ScorablePassage
from service.model import (
    Capture,
    ChangeKind,
    ContentType,
    Facet,
    FacetTag,
    Item,
    ItemId,
    Provenance,
    SelectedOption,
    System,
    TagEvent,
    TagStatus,
    Vocabulary,
    Workspace,
)

PassageKey = NewType("PassageKey", int)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A live, scorable passage in the snapshot's corpus, ready to be scored."""

    key: PassageKey
    passage: ScorablePassage


@dataclass(frozen=True, slots=True)
class PresentablePassage:
    """What an answer shows of a passage."""

    heading: str | None
    seq: int
    text: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class IndexablePassage:
    """What a derived index is told of a passage: its key, content type and stored token texts."""

    key: PassageKey
    content_type: ContentType
    title: str
    heading: str
    body: str
    length: int


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the change log."""

    seq: int
    kind: ChangeKind
    item_key: int | None


@dataclass(frozen=True, slots=True)
class LogStretch:
    """A workspace's entries after one number of the log and up to another, `end`, as of one moment.

    A nonce tells histories apart: a database that was put back and written to again has another one at the same
    number. `before` is the one at the first number, `nonce` at `end`; `head` is the log's newest number.
    """

    head: int
    before: int
    changes: Sequence[Change]
    end: int
    nonce: int


@dataclass(frozen=True, slots=True)
class GlanceRow:
    """A candidate of a glance, and what to show of it if it gets on the page."""

    candidate: Candidate
    shown: Callable[[], PresentablePassage]


@dataclass(frozen=True, slots=True)
class Glance:
    """Everything the common read needs, as of one moment. `corpus` is as `ReadSnapshot.corpus` gives it."""

    seq: int
    nonce: int
    corpus: int
    rows: Sequence[GlanceRow]


class ReadSnapshot(Protocol):
    """One consistent view of the rows. Unknown ids are absent, never an error."""

    @property
    def seq(self) -> int:
        """The change-log sequence this snapshot shows."""
        ...

    @property
    def nonce(self) -> int:
        """Which history that sequence number belongs to; see `LogStretch`."""
        ...

    async def corpus(self, workspace: Workspace) -> int:
        """How many changes the workspace has seen: two states of a corpus differ in it."""
        ...

    async def candidates(
        self, workspace: Workspace, keys: Sequence[int], content_type: ContentType | None
    ) -> Sequence[Candidate]:
        """The live scorable passages among `keys`; stale, foreign and ghost keys are absent. Any order."""
        ...

    async def named_keys(
        self, workspace: Workspace, names: Sequence[tuple[ItemId, int]], content_type: ContentType | None
    ) -> Mapping[tuple[ItemId, int], PassageKey]:
        """The keys of the live scorable passages among (item id, seq) names."""
        ...

    async def item_candidates(
        self, workspace: Workspace, item_ids: Sequence[ItemId], content_type: ContentType | None, bound: int
    ) -> Sequence[Candidate]:
        """Live scorable passages of the items, in the order of `item_ids` and then seq, at most `bound`."""
        ...

    async def scan(
        self, workspace: Workspace, after: PassageKey | None, limit: int
    ) -> Sequence[IndexablePassage]:
        """The next live scorable passages in key order, whatever their content type."""
        ...

    async def passages(self, keys: Sequence[PassageKey]) -> Mapping[PassageKey, PresentablePassage]:
        """What to show of passages that `candidates` returned in this snapshot."""
        ...

    async def count_scorable(self, workspace: Workspace, bound: int) -> int:
        """How many live scorable passages there are, counted no further than `bound`."""
        ...

    async def system(self, workspace: Workspace, system_id: str) -> System | None:
        """A system, retired or not."""
        ...

    async def selected_options(
        self, workspace: Workspace, option_ids: Sequence[str]
    ) -> Sequence[SelectedOption]:
        """The known ones among the options, in option id order."""
        ...

    async def tags_of_facets(self, workspace: Workspace, facets: Sequence[Facet]) -> Sequence[FacetTag]:
        """Accepted tags of live items under the facets, without their events."""
        ...

    async def item(self, workspace: Workspace, item_id: ItemId) -> Item | None:
        """A whole item, stale or not, passages in order."""
        ...

    async def supersession(self, workspace: Workspace, item_id: ItemId) -> Sequence[Item]:
        """The chain through an item, oldest first, without passages; empty for an unknown item."""
        ...

    async def vocabulary(self, workspace: Workspace) -> Vocabulary:
        """The whole vocabulary, each part in id order."""
        ...

    async def tags(
        self,
        workspace: Workspace,
        item_id: ItemId | None,
        status: TagStatus | None,
        after: str | None,
        limit: int,
    ) -> Sequence[FacetTag]:
        """Tags with their events, in tag id order, after a tag id."""
        ...

    async def tag(self, workspace: Workspace, tag_id: str) -> FacetTag | None:
        """One tag with its events."""
        ...


@dataclass(frozen=True, slots=True)
class NewItem:
    """A capture that becomes an item, with the item it supersedes."""

    item_id: ItemId
    capture: Capture
    source_key_hash: str
    content_hash: str
    fetched_at: datetime
    supersedes: ItemId | None


@dataclass(frozen=True, slots=True)
class IngestMark:
    """How far an ingest has read a named file. `done` counts the lines of a file of many captures."""

    name_hash: str
    digest: str
    done: int
    finished: bool
    item_id: ItemId | None = None


class WriteTransaction(Protocol):
    """One transaction of one workspace. Holds the store's write lock from its first moment to its commit."""

    async def heads(self, item_ids: Sequence[ItemId]) -> Mapping[ItemId, ItemHead]:
        """The items among `item_ids` that exist."""
        ...

    async def live_heads(self, source_key_hashes: Sequence[str]) -> Mapping[str, ItemHead]:
        """The live item of each source that has one."""
        ...

    async def capture_counts(self, source_key_hashes: Sequence[str]) -> Mapping[str, int]:
        """How many items each source ever had; sources without any are absent."""
        ...

    async def insert_items(self, new: Sequence[NewItem]) -> None:
        """Store items, supersede what they replace and log both."""
        ...

    async def refresh(self, fetched: Mapping[ItemId, datetime]) -> None:
        """Set `fetched_at` of unchanged items; nothing is logged, since no answer's order depends on it."""
        ...

    async def retire(self, item_id: ItemId, at: datetime) -> None:
        """Mark an item retired and log it."""
        ...

    async def supersede(self, item_id: ItemId, by: ItemId) -> None:
        """Point an item at its successor and log it."""
        ...

    async def replace_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Replace the workspace's whole vocabulary and log it."""
        ...

    async def facet_exists(self, facet: Facet) -> bool:
        """Whether the vocabulary has the facet."""
        ...

    async def tag(self, tag_id: str) -> FacetTag | None:
        """One tag with its events."""
        ...

    async def item_tags(self, item_ids: Sequence[ItemId]) -> Sequence[FacetTag]:
        """All tags of the items, without events."""
        ...

    async def put_tag(self, tag: FacetTag, event: TagEvent) -> None:
        """Store a tag's status and append the event that led to it, and log it."""
        ...

    async def mark_ingest(self, mark: IngestMark) -> None:
        """Remember how far an ingest has come."""
        ...

    async def request_rebuild(self) -> None:
        """Log that every derived index of the workspace is to be rebuilt from the rows."""
        ...


class Store(Protocol):
    """The authoritative database."""

    def snapshot(self) -> AbstractAsyncContextManager[ReadSnapshot]:
        """A consistent view, closed on exit. Raises StoreUnavailable."""
        ...

    async def glance(
        self, workspace: Workspace, keys: Sequence[int], content_type: ContentType | None
    ) -> Glance | None:
        """The live scorable passages among `keys` and the sequence number, in one statement.

        None when it could not be had; a snapshot then says why.
        """
        ...

    def transaction(self, workspace: Workspace) -> AbstractAsyncContextManager[WriteTransaction]:
        """A write: committed on a clean exit, rolled back on an exception. Raises StoreUnavailable."""
        ...

    async def ingest_marks(
        self, workspace: Workspace, name_hashes: Sequence[str]
    ) -> Mapping[str, IngestMark]:
        """What earlier ingests have read."""
        ...


class ChangeFeed(Protocol):
    """How derived indexes learn: the change log and the rows it speaks of."""

    async def head(self) -> int:
        """The newest committed sequence number."""
        ...

    async def database_id(self) -> str:
        """A name that no other database has; an index built from another one is not used."""
        ...

    async def nonce(self, seq: int) -> int:
        """Which history a sequence number belongs to; see `LogStretch`."""
        ...

    async def recent_workspaces(self, limit: int) -> Sequence[Workspace]:
        """The workspaces that were changed last, the newest change first."""
        ...

    async def stretch(self, workspace: Workspace, after: int, until: int, limit: int) -> LogStretch:
        """The first entries after `after` and up to `until`; more than `limit` end the stretch earlier."""
        ...

    async def indexable(
        self, item_keys: Sequence[int], after: PassageKey | None, limit: int
    ) -> Sequence[tuple[int, IndexablePassage]]:
        """The next scorable passages of the items, stale or not, as (item key, passage) in passage key order."""
        ...
