"""What the vector arm and its worker need: an encoder, and the SQL side of the vector index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from service.model import ContentType, ItemId, Workspace
from service.ports.vectors import CollectionName

if TYPE_CHECKING:  # numpy comes with the optional embeddings dependencies
    from service.ports.vectors import Float32Array


class EncoderState(StrEnum):
    """Whether texts can be encoded."""

    ABSENT = "absent"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


class EncoderFailed(Exception):
    """The encoder raised, or gave vectors that cannot be used."""


class EncoderBusy(EncoderFailed):
    """The encoder's queue is full."""


class TextRefused(EncoderFailed):
    """A text that has no vector, whoever asks and however often; of the encoder it says nothing."""


class Encoder(Protocol):
    """Texts to unit vectors of one model, off the event loop."""

    @property
    def state(self) -> EncoderState:
        """Loading happens in the background; nothing waits for it."""
        ...

    @property
    def failure(self) -> str | None:
        """Why loading failed, for an operator."""
        ...

    @property
    def fingerprint(self) -> str:
        """Names everything that changes a vector. Only when ready."""
        ...

    @property
    def dimension(self) -> int:
        """Only when ready."""
        ...

    async def encode_query(self, text: str, workspace: Workspace) -> Float32Array:
        """A (dimension,) float32 unit vector, remembered for this workspace only.

        Raises:
            TextRefused: the text has nothing to encode.
            EncoderFailed: the encoder is not well.
        """
        ...

    async def encode_passages(self, texts: Sequence[str]) -> Sequence[Float32Array]:
        """Per text its windows, (windows, dimension) float32 unit rows. Raises EncoderFailed."""
        ...


@dataclass(frozen=True, slots=True)
class Embeddable:
    """A scorable passage as the worker sees it. `windows` is how many points it has, if it was ever encoded."""

    passage_key: int
    workspace: Workspace
    item_id: ItemId
    seq: int
    content_type: ContentType
    live: bool
    text: str
    text_hash: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a collection has followed the change log. Says nothing of a collection of another incarnation."""

    incarnation: str
    seq: int
    at: datetime


class CollectionRole(StrEnum):
    """What a collection is for."""

    BUILDING = "building"
    ACTIVE = "active"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class KnownCollection:
    """A collection as SQL knows it."""

    name: CollectionName
    fingerprint: str
    model: str
    dimension: int
    role: CollectionRole
    created_at: datetime


def serving_collection(known: Sequence[KnownCollection], fingerprint: str) -> KnownCollection | None:
    """The collection to search with this model: the active one, or its own that was retired and not dropped."""
    for role in (CollectionRole.ACTIVE, CollectionRole.RETIRED):
        for collection in reversed(known):
            if collection.role is role and collection.fingerprint == fingerprint:
                return collection
    return None


@dataclass(frozen=True, slots=True)
class Parked:
    """A passage that could not be embedded, set aside so that the rest goes on. `retry_at` is when it is due."""

    passage_key: int
    workspace: Workspace
    item_id: ItemId
    seq: int
    reason: str
    attempts: int
    retry_at: datetime


class EmbeddingCache(Protocol):
    """The vectors of texts that were encoded before, by the model's fingerprint and the text's hash."""

    async def cached(self, fingerprint: str, text_hashes: Sequence[str]) -> Mapping[str, Float32Array]:
        """The vectors of those texts that have any kept, (windows, dimension) each.

        (0, 0) for a text in which the model sees no token. What was damaged is absent.
        """
        ...

    async def cached_windows(self, fingerprint: str, text_hashes: Sequence[str]) -> Mapping[str, int]:
        """Only how many windows each of those texts has."""
        ...

    async def cache(self, fingerprint: str, vectors: Mapping[str, Float32Array]) -> None:
        """Keep vectors by text hash, in the place of what was kept of the same texts."""
        ...

    async def cached_fingerprints(self) -> Sequence[str]:
        """Every model that has vectors kept, ascending."""
        ...

    async def cached_hashes(self, fingerprint: str, after: str, limit: int) -> Sequence[str]:
        """The first `limit` hashes of a model's texts greater than `after`, ascending."""
        ...

    async def uncache(self, fingerprint: str, text_hashes: Sequence[str]) -> None:
        """Keep these no longer; unknown ones are no error."""
        ...


class Parking(Protocol):
    """Passages that could not be embedded, by collection. How long each waits follows from its attempts."""

    async def park(self, collection: CollectionName, passage: Embeddable, reason: str) -> None:
        """Set a passage aside, or count another attempt."""
        ...

    async def unpark(self, collection: CollectionName, passage_keys: Sequence[int]) -> None:
        """These passages are no longer set aside; writes nothing when none of them was."""
        ...

    async def parked(self, collection: CollectionName, limit: int) -> Sequence[Parked]:
        """Passages that are set aside, by key."""
        ...

    async def due(self, collection: CollectionName, moment: datetime, limit: int) -> Sequence[Parked]:
        """Those that are to be tried again at a moment, the longest due first."""
        ...


class Leases(Protocol):
    """Rights to do a named work alone. Time is the database's, so that no machine's clock matters."""

    async def lease(self, name: str, owner: str, seconds: float) -> bool:
        """Take or renew the right. False while another owner has it.

        It is taken over when it has run out, or when the process that holds it is known to be dead.
        """
        ...

    async def release(self, name: str, owner: str) -> None:
        """Give it back."""
        ...


class VectorLedger(EmbeddingCache, Parking, Leases, Protocol):
    """The SQL side: the change log across workspaces, progress, the pointer, and what else must be remembered."""

    @property
    def forks(self) -> int:
        """How often the database turned out to have been put back to an earlier state; `progress` looks."""
        ...

    async def item_changes(self, after: int, limit: int) -> tuple[Sequence[int], int]:
        """The items that the next `limit` log entries speak of, and the last entry's number."""
        ...

    async def embeddable(
        self, item_keys: Sequence[int] | None, after: int | None, limit: int
    ) -> Sequence[Embeddable]:
        """The next scorable passages of the items, or of all live items (None), in passage key order."""
        ...

    async def progress(self, collection: CollectionName) -> Progress | None:
        """How far the collection is."""
        ...

    async def save_progress(self, collection: CollectionName, incarnation: str, seq: int) -> None:
        """Remember how far the collection is."""
        ...

    async def collections(self) -> Sequence[KnownCollection]:
        """Every collection, oldest first."""
        ...

    async def register(self, collection: KnownCollection) -> None:
        """Add a collection; known names are left alone."""
        ...

    async def activate(self, collection: CollectionName) -> None:
        """Make it the active one and retire the one that was, in one transaction."""
        ...

    async def forget(self, collection: CollectionName) -> None:
        """Remove a collection, its progress and its parked passages.

        The cached vectors of its model go too, unless another collection is of the same model.
        """
        ...

    async def head(self) -> int:
        """The newest committed sequence number."""
        ...

    async def lag_seconds(self, after: int) -> float:
        """The age of the oldest log entry after a sequence number; 0 when there is none."""
        ...
