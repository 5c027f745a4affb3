"""What vector tests are made of: unit vectors, points, deadlines and an exact answer to compare with."""

import time
import uuid
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from service.model import ContentType, ItemId, Workspace
from service.ports.vectors import CollectionName, Hit, PointKey, VectorIndex, VectorPoint, VectorQuery

DIMENSION = 8
COLLECTION = CollectionName("passages-test-1")
OTHER = CollectionName("passages-test-2")
HERE = Workspace("here")
THERE = Workspace("there")
TYPES = tuple(ContentType)


def soon(seconds: float = 20.0) -> float:
    """A deadline that a working store keeps."""
    return time.monotonic() + seconds


def unit_rows(count: int, dimension: int = DIMENSION, seed: int = 0) -> NDArray[np.float32]:
    """(count, dimension) float32 unit rows."""
    rows = np.random.default_rng(seed).standard_normal((count, dimension))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def points_of(count: int, workspace: Workspace = HERE, prefix: str = "item") -> list[VectorPoint]:
    """Points of items with three passages each, their content types taken in turn."""
    return [
        VectorPoint(
            workspace,
            TYPES[number // 3 % len(TYPES)],
            PointKey(ItemId(f"{prefix}-{number // 3:05d}"), number % 3),
        )
        for number in range(count)
    ]


def nearest(
    vector: NDArray[np.float32],
    limit: int,
    workspace: Workspace = HERE,
    content_type: ContentType | None = None,
) -> VectorQuery:
    """A query."""
    return VectorQuery(vector, workspace, content_type, limit)


def exact(points: Sequence[VectorPoint], vectors: NDArray[np.float32], query: VectorQuery) -> list[Hit]:
    """The best that match, by plain arithmetic in float64."""
    scores = vectors.astype(np.float64) @ query.vector.astype(np.float64)
    matching = (
        Hit(point.key, float(score))
        for score, point in zip(scores, points, strict=True)
        if point.workspace == query.workspace and query.content_type in (None, point.content_type)
    )
    return sorted(matching, key=lambda hit: (-hit.score, hit.key))[: query.limit]


async def filled(index: VectorIndex, count: int, dimension: int = DIMENSION) -> NDArray[np.float32]:
    """Ensure COLLECTION and store `count` points of HERE in it; returns their vectors."""
    vectors = unit_rows(count, dimension)
    await index.ensure(COLLECTION, dimension, soon())
    await index.upsert(COLLECTION, points_of(count), vectors, soon())
    return vectors


async def all_ids(index: VectorIndex) -> set[uuid.UUID]:
    """Every id in COLLECTION."""
    seen: set[uuid.UUID] = set()
    after = None
    while page := await index.ids(COLLECTION, None, after, 10_000, soon()):
        seen.update(page)
        after = page[-1]
    return seen
