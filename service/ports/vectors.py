"""What the vector arm and its worker need from a vector index.

The index is derived data. It may lag behind SQL, lose points or return points that are gone: SQL decides
about every candidate. Collections are named after the fingerprint of the model that made their vectors, so
a collection made by another model is never searched.

Deadlines are points in time of `time.monotonic()`, in seconds. A call whose deadline passes raises
`VectorStoreTimeout`; a write that timed out may still happen, which is harmless: every write is idempotent.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, NewType, Protocol, runtime_checkable

from service.errors import CitewellError
from service.model import ContentType, ItemId, Workspace

if TYPE_CHECKING:  # numpy comes with the optional embeddings dependencies; the lexical service runs without
    import numpy as np
    from numpy.typing import NDArray

    Float32Array = NDArray[np.float32]

CollectionName = NewType("CollectionName", str)

MAX_HITS = 10_000
MAX_PAGE = 10_000
_POINT_NAMESPACE = uuid.UUID("8d0f4d43-6a5e-5c9e-9a54-2f6b0c6f4f11")


class StoreReason(StrEnum):
    """Why the vector arm could not use its store; a closed list."""

    UNAVAILABLE = "store_unavailable"
    TIMEOUT = "store_timeout"
    ERROR = "store_error"
    FINGERPRINT_MISMATCH = "fingerprint_mismatch"


class VectorStoreError(CitewellError):
    """The vector store failed. `reason` is what the read path reports when it answers without vectors."""

    code = "vector_store_error"
    title = "Vector store error"
    reason: ClassVar[StoreReason] = StoreReason.ERROR


class VectorStoreUnavailable(VectorStoreError):
    """The store does not answer: down, restarting, overloaded or held by another process."""

    code = "vector_store_unavailable"
    title = "Vector store unavailable"
    reason = StoreReason.UNAVAILABLE


class CollectionMissing(VectorStoreUnavailable):
    """There is no such collection: it was never built, or it was dropped."""

    code = "vector_collection_missing"
    title = "No such vector collection"


class VectorStoreTimeout(VectorStoreError):
    """The deadline passed before the store answered."""

    code = "vector_store_timeout"
    title = "Vector store timed out"
    reason = StoreReason.TIMEOUT


class DimensionMismatch(VectorStoreError):
    """The vector, or the dimension asked for, is not of the collection's dimension."""

    code = "vector_dimension_mismatch"
    title = "Vectors of another model"
    reason = StoreReason.FINGERPRINT_MISMATCH


class InvalidVector(VectorStoreError):
    """A vector holds a NaN or an infinity, or is not of unit length. No engine was called."""

    code = "invalid_vector"
    title = "Invalid vector"


class MalformedAnswer(VectorStoreError):
    """The store answered with what cannot be a hit: a NaN score, a damaged payload, a foreign id."""

    code = "vector_store_malformed_answer"
    title = "Malformed answer of the vector store"


class VectorStorageFull(VectorStoreError):
    """The store has no room for the write. Searching goes on."""

    code = "vector_storage_full"
    title = "Vector storage full"


@dataclass(frozen=True, slots=True, order=True)
class PointKey:
    """Which part of which passage a vector stands for. `window` counts from 0 inside a long passage."""

    item_id: ItemId
    seq: int
    window: int = 0


@dataclass(frozen=True, slots=True)
class VectorPoint:
    """A point without its vector: its key, and what a search filters by."""

    workspace: Workspace
    content_type: ContentType
    key: PointKey

    @property
    def id(self) -> uuid.UUID:
        """The point's id in every engine and collection."""
        return point_id(self.workspace, self.key)


@dataclass(frozen=True, slots=True, eq=False)
class VectorQuery:
    """The `limit` nearest points of a workspace, of one content type or (None) of all.

    `vector` is a unit vector, (dimension,) float32. `limit` is in 1 … MAX_HITS. To get further candidates,
    ask again with a larger limit; fewer hits than `limit` mean that the index has no more.
    """

    vector: Float32Array
    workspace: Workspace
    content_type: ContentType | None
    limit: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A candidate. `score` is the cosine similarity, finite; SQL decides whether the passage is served."""

    key: PointKey
    score: float


@dataclass(frozen=True, slots=True)
class CollectionState:
    """What a collection holds now.

    `incarnation` changes whenever the collection starts empty again: created anew, or set aside because it
    was found damaged. Progress recorded under another incarnation says nothing about this one.
    """

    name: CollectionName
    dimension: int
    points: int
    incarnation: str


def collection_name(fingerprint: str, generation: int = 1) -> CollectionName:
    """The collection of a model's vectors; a rebuild beside a serving one takes the next generation."""
    digest = hashlib.sha256(fingerprint.encode()).hexdigest()[:24]
    return CollectionName(f"passages-{digest}-{generation}")


def point_id(workspace: Workspace, key: PointKey) -> uuid.UUID:
    """A UUID5 of all four parts. Equal parts give equal ids, and no other parts spell the same name."""
    name = f"{len(workspace)}:{workspace}{key.item_id}#{key.seq}#{key.window}"
    return uuid.uuid5(_POINT_NAMESPACE, name)


class VectorSearch(Protocol):
    """For the read path."""

    async def search(
        self, collection: CollectionName, query: VectorQuery, deadline: float
    ) -> tuple[Hit, ...]:
        """The nearest points, best first: score descending, then key.

        Several windows of a passage may hit, and an ill store may name a point twice: it then stands twice.

        Raises:
            VectorStoreError: with the reason to report.
        """
        ...


class VectorWrites(Protocol):
    """For the worker that follows the change log. A write is seen by every search that starts after it."""

    async def ensure(self, collection: CollectionName, dimension: int, deadline: float) -> CollectionState:
        """The collection, created if it is missing.

        Raises:
            DimensionMismatch: it exists with another dimension.
        """
        ...

    async def upsert(
        self,
        collection: CollectionName,
        points: Sequence[VectorPoint],
        vectors: Float32Array,
        deadline: float,
    ) -> None:
        """Store `vectors`, (len(points), dimension) float32 unit rows; of equal ids the last one stays.

        All of the batch is durable when this returns; after an error any part of it may be.

        Raises:
            CollectionMissing: `ensure` it first.
            InvalidVector | DimensionMismatch: nothing was stored.
            VectorStorageFull: there is no room.
        """
        ...

    async def delete(self, collection: CollectionName, ids: Collection[uuid.UUID], deadline: float) -> None:
        """Remove points; unknown ids are no error."""
        ...


class VectorInventory(Protocol):
    """For reconciling by exact id difference, and for operators."""

    async def collections(self, deadline: float) -> tuple[CollectionName, ...]:
        """Every collection of this project in the store, in order of name."""
        ...

    async def describe(self, collection: CollectionName, deadline: float) -> CollectionState:
        """Raises CollectionMissing if there is none."""
        ...

    async def ids(
        self,
        collection: CollectionName,
        workspace: Workspace | None,
        after: uuid.UUID | None,
        limit: int,
        deadline: float,
    ) -> tuple[uuid.UUID, ...]:
        """The first `limit` ids greater than `after`, ascending; fewer than `limit` mean the end.

        Points written or removed meanwhile may or may not be seen; every other point is seen once.
        """
        ...

    async def count(self, collection: CollectionName, workspace: Workspace | None, deadline: float) -> int:
        """The exact number of points, of one workspace or (None) of all."""
        ...

    async def drop(self, collection: CollectionName, deadline: float) -> None:
        """Remove the collection and all it holds; an unknown one is no error."""
        ...


@runtime_checkable
class CollectionPointer(Protocol):
    """Which collection serves, where the store itself keeps that (an alias of a Qdrant server)."""

    async def active(self, deadline: float) -> CollectionName | None:
        """The collection that serves, or None before the first switch."""
        ...

    async def activate(self, collection: CollectionName, deadline: float) -> None:
        """Switch in one step. Raises CollectionMissing and switches nothing if there is none."""
        ...


class VectorIndex(VectorSearch, VectorWrites, VectorInventory, Protocol):
    """A whole vector store, as bootstrap builds it."""

    async def health(self, deadline: float) -> None:
        """Return when the store answers. Raises VectorStoreError with the reason if it does not."""
        ...

    async def close(self) -> None:
        """Release connections, processes and locks. Points that were stored stay stored."""
        ...
