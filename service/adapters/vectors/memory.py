"""A real vector index in this process's memory: exact, for tests, demonstrations and small corpora."""

import heapq
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from service.adapters.vectors.checks import (
    checked_limit,
    checked_page,
    last_of_each,
    unit_rows,
    unit_vector,
)
from service.adapters.vectors.deadlines import remaining
from service.model import Workspace
from service.ports.vectors import (
    CollectionMissing,
    CollectionName,
    CollectionState,
    DimensionMismatch,
    Hit,
    VectorPoint,
    VectorQuery,
)


@dataclass(slots=True)
class _Stored:
    """Points and their vectors; row i of `rows` belongs to `points[i]`, rows beyond are spare room."""

    dimension: int
    incarnation: str
    rows: NDArray[np.float32]
    points: list[VectorPoint] = field(default_factory=list)
    places: dict[uuid.UUID, int] = field(default_factory=dict)

    def put(self, point: VectorPoint, vector: NDArray[np.float32]) -> None:
        """Add the point, or replace the one with its id."""
        place = self.places.setdefault(point.id, len(self.points))
        if place == len(self.rows):
            self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])
        if place == len(self.points):
            self.points.append(point)
        self.points[place] = point
        self.rows[place] = vector

    def remove(self, identity: uuid.UUID) -> None:
        """Take the point out; the last row moves into its place."""
        place = self.places.pop(identity, None)
        if place is None:
            return
        last = self.points.pop()
        if place < len(self.points):
            self.points[place] = last
            self.rows[place] = self.rows[len(self.points)]
            self.places[last.id] = place


class MemoryVectorIndex:
    """Brute force over every vector of a collection, in one order. Also keeps the active collection."""

    def __init__(self) -> None:
        self._collections: dict[CollectionName, _Stored] = {}
        self._active: CollectionName | None = None

    async def search(
        self, collection: CollectionName, query: VectorQuery, deadline: float
    ) -> tuple[Hit, ...]:
        """The nearest points by exact cosine."""
        limit = checked_limit(query.limit)
        stored = self._stored(collection, deadline)
        vector = unit_vector(query.vector, stored.dimension)
        scores = stored.rows[: len(stored.points)] @ vector
        hits = (
            Hit(point.key, float(score))
            for point, score in zip(stored.points, scores, strict=True)
            if point.workspace == query.workspace and query.content_type in (None, point.content_type)
        )
        best = heapq.nsmallest(limit, hits, key=lambda hit: (-hit.score, hit.key))
        return tuple(best)

    async def ensure(self, collection: CollectionName, dimension: int, deadline: float) -> CollectionState:
        """The collection, created if it is missing."""
        remaining(deadline)
        if collection not in self._collections:
            room = np.empty((64, dimension), dtype=np.float32)
            self._collections[collection] = _Stored(dimension, uuid.uuid4().hex, room)
        state = await self.describe(collection, deadline)
        if state.dimension != dimension:
            raise DimensionMismatch(f"the collection holds vectors of {state.dimension} dimensions")
        return state

    async def upsert(
        self,
        collection: CollectionName,
        points: Sequence[VectorPoint],
        vectors: NDArray[np.float32],
        deadline: float,
    ) -> None:
        """Store copies of the vectors."""
        stored = self._stored(collection, deadline)
        rows = unit_rows(vectors, len(points), stored.dimension)
        for position in last_of_each(points).values():
            stored.put(points[position], rows[position])

    async def delete(self, collection: CollectionName, ids: Collection[uuid.UUID], deadline: float) -> None:
        """Remove points."""
        stored = self._stored(collection, deadline)
        for identity in ids:
            stored.remove(identity)

    async def collections(self, deadline: float) -> tuple[CollectionName, ...]:
        """Every collection, in order of name."""
        remaining(deadline)
        return tuple(sorted(self._collections))

    async def describe(self, collection: CollectionName, deadline: float) -> CollectionState:
        """What the collection holds."""
        stored = self._stored(collection, deadline)
        return CollectionState(collection, stored.dimension, len(stored.points), stored.incarnation)

    async def ids(
        self,
        collection: CollectionName,
        workspace: Workspace | None,
        after: uuid.UUID | None,
        limit: int,
        deadline: float,
    ) -> tuple[uuid.UUID, ...]:
        """A page of ids in ascending order."""
        most = checked_page(limit)
        stored = self._stored(collection, deadline)
        found = (
            identity
            for identity, place in stored.places.items()
            if (workspace is None or stored.points[place].workspace == workspace)
            and (after is None or identity > after)
        )
        return tuple(heapq.nsmallest(most, found))

    async def count(self, collection: CollectionName, workspace: Workspace | None, deadline: float) -> int:
        """The exact number of points."""
        stored = self._stored(collection, deadline)
        return sum(workspace is None or point.workspace == workspace for point in stored.points)

    async def drop(self, collection: CollectionName, deadline: float) -> None:
        """Forget the collection."""
        remaining(deadline)
        self._collections.pop(collection, None)
        if self._active == collection:
            self._active = None

    async def active(self, deadline: float) -> CollectionName | None:
        """The collection that serves."""
        remaining(deadline)
        return self._active

    async def activate(self, collection: CollectionName, deadline: float) -> None:
        """Switch to the collection."""
        self._stored(collection, deadline)
        self._active = collection

    async def health(self, deadline: float) -> None:
        """Always well."""
        remaining(deadline)

    async def close(self) -> None:
        """Nothing to release."""

    def _stored(self, collection: CollectionName, deadline: float) -> _Stored:
        remaining(deadline)
        try:
            return self._collections[collection]
        except KeyError as error:
            raise CollectionMissing("no such vector collection") from error
