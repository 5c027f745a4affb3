"""What every vector index promises, asked of each of the three."""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.model import ContentType, ItemId, Workspace
from service.ports.vectors import (
    MAX_HITS,
    CollectionMissing,
    DimensionMismatch,
    Hit,
    InvalidVector,
    PointKey,
    StoreReason,
    VectorIndex,
    VectorPoint,
    VectorStoreError,
    VectorStoreTimeout,
)
from tests.vectors.parts import (
    COLLECTION,
    DIMENSION,
    HERE,
    OTHER,
    THERE,
    TYPES,
    exact,
    filled,
    nearest,
    points_of,
    soon,
    unit_rows,
)

pytestmark = [
    pytest.mark.anyio,
    # what the client's in-memory mode says that it does not do
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact:UserWarning"),
]

shared_store = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def assert_alike(hits: Sequence[Hit], expected: Sequence[Hit]) -> None:
    """The same points in the same order, up to what float32 cannot tell apart."""
    scores = {hit.key: hit.score for hit in expected}
    assert {hit.key for hit in hits} == scores.keys()
    assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected], abs=1e-5)
    assert [hit.score for hit in hits] == pytest.approx([scores[hit.key] for hit in hits], abs=1e-5)


def own_workspace() -> Workspace:
    """Examples of one test share a collection and keep apart by workspace."""
    return Workspace(f"example {uuid.uuid4()}")


@shared_store
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(0, 80),
    limit=st.integers(1, 100),
    content_type=st.sampled_from([None, *TYPES]),
)
async def test_search_equals_brute_force(
    index: VectorIndex, seed: int, count: int, limit: int, content_type: ContentType | None
) -> None:
    """C24: a search returns exactly the nearest points of its workspace and content type, best first."""
    workspace = own_workspace()
    points, vectors = points_of(count, workspace), unit_rows(count, seed=seed)
    await index.ensure(COLLECTION, DIMENSION, soon())
    await index.upsert(COLLECTION, points, vectors, soon())
    query = nearest(unit_rows(1, seed=seed + 1)[0], limit, workspace, content_type)

    hits = await index.search(COLLECTION, query, soon())

    assert_alike(hits, exact(points, vectors, query))


@shared_store
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 40))
async def test_upserting_twice_is_upserting_once(index: VectorIndex, seed: int, count: int) -> None:
    """The same batch again changes neither the ids, nor the count, nor any answer."""
    workspace = own_workspace()
    points, vectors = points_of(count, workspace), unit_rows(count, seed=seed)
    query = nearest(vectors[0], 100, workspace)
    await index.ensure(COLLECTION, DIMENSION, soon())
    await index.upsert(COLLECTION, points, vectors, soon())
    hits = await index.search(COLLECTION, query, soon())
    ids = await index.ids(COLLECTION, workspace, None, 100, soon())

    await index.upsert(COLLECTION, points, vectors, soon())

    assert_alike(await index.search(COLLECTION, query, soon()), hits)
    assert await index.ids(COLLECTION, workspace, None, 100, soon()) == ids
    assert await index.count(COLLECTION, workspace, soon()) == count


@shared_store
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 40), gone=st.sets(st.integers(0, 39)))
async def test_a_deleted_point_is_never_returned(
    index: VectorIndex, seed: int, count: int, gone: set[int]
) -> None:
    """After a delete no search returns the point, and every other point is still found."""
    workspace = own_workspace()
    points, vectors = points_of(count, workspace), unit_rows(count, seed=seed)
    left = {point.key for number, point in enumerate(points) if number not in gone}
    await index.ensure(COLLECTION, DIMENSION, soon())
    await index.upsert(COLLECTION, points, vectors, soon())

    await index.delete(COLLECTION, [points[number].id for number in gone if number < count], soon())

    for vector in vectors[:5]:
        hits = await index.search(COLLECTION, nearest(vector, 100, workspace), soon())
        assert {hit.key for hit in hits} == left


async def test_a_deleted_point_can_come_back(index: VectorIndex) -> None:
    """Deleting is not remembered: the same id can be stored again."""
    vectors = await filled(index, 3)
    point = points_of(3)[1]
    await index.delete(COLLECTION, [point.id, uuid.uuid4()], soon())
    await index.upsert(COLLECTION, [point], vectors[1:2], soon())

    hits = await index.search(COLLECTION, nearest(vectors[1], 1), soon())

    assert [hit.key for hit in hits] == [point.key]


async def test_of_equal_ids_in_a_batch_the_last_one_stays(index: VectorIndex) -> None:
    """A point that comes twice in one batch is stored once, as it came last."""
    first, last = unit_rows(2)
    point = points_of(1)[0]
    moved = replace(point, content_type=ContentType.MARKETING)
    await index.ensure(COLLECTION, DIMENSION, soon())

    await index.upsert(COLLECTION, [point, moved], np.stack([first, last]), soon())

    hits = await index.search(COLLECTION, nearest(last, 5, content_type=ContentType.MARKETING), soon())
    assert [(hit.key, round(hit.score, 4)) for hit in hits] == [(point.key, 1.0)]
    assert await index.count(COLLECTION, None, soon()) == 1


async def test_storing_a_point_again_replaces_its_vector(index: VectorIndex) -> None:
    """A search for the old vector no longer finds the point there."""
    vectors = await filled(index, 30)
    point = points_of(30)[7]

    await index.upsert(COLLECTION, [point], -vectors[7:8], soon())

    hits = await index.search(COLLECTION, nearest(vectors[7], 30), soon())
    assert hits[-1].key == point.key
    assert hits[-1].score == pytest.approx(-1.0, abs=1e-5)


async def test_workspaces_with_identical_ids_are_apart(index: VectorIndex) -> None:
    """Two workspaces hold the same item ids and each search sees only its own."""
    mine, theirs = unit_rows(6, seed=1), unit_rows(6, seed=2)
    await index.ensure(COLLECTION, DIMENSION, soon())
    await index.upsert(COLLECTION, points_of(6, HERE), mine, soon())
    await index.upsert(COLLECTION, points_of(6, THERE), theirs, soon())

    await index.delete(COLLECTION, [point.id for point in points_of(3, THERE)], soon())

    here = await index.search(COLLECTION, nearest(mine[0], 100, HERE), soon())
    there = await index.search(COLLECTION, nearest(mine[0], 100, THERE), soon())
    assert here[0].score == pytest.approx(1.0, abs=1e-5)
    assert (len(here), len(there)) == (6, 3)
    assert await index.count(COLLECTION, HERE, soon()) == 6
    assert await index.count(COLLECTION, THERE, soon()) == 3
    assert await index.count(COLLECTION, None, soon()) == 9


async def test_ties_stand_in_order_of_key(index: VectorIndex) -> None:
    """Equal scores are ordered by item id, then passage, then window."""
    vector = unit_rows(1)
    keys = [PointKey(ItemId(item), seq, window) for item in "ba" for seq in (10, 9) for window in (1, 0)]
    points = [VectorPoint(HERE, ContentType.BLOG, key) for key in keys]
    await index.ensure(COLLECTION, DIMENSION, soon())
    await index.upsert(COLLECTION, points, np.repeat(vector, len(points), axis=0), soon())

    hits = await index.search(COLLECTION, nearest(vector[0], 8), soon())

    assert [hit.key for hit in hits] == sorted(keys)


async def test_asking_further_extends_the_answer(index: VectorIndex) -> None:
    """C15: a larger limit begins with the smaller one's answer, until fewer come than were asked for."""
    vectors = await filled(index, 50)
    answers = [
        await index.search(COLLECTION, nearest(vectors[0], limit), soon()) for limit in (5, 20, 50, 500)
    ]

    assert [len(answer) for answer in answers] == [5, 20, 50, 50]
    for shorter, longer in pairwise(answers):
        assert_alike(longer[: len(shorter)], shorter)


async def test_ids_come_in_complete_ascending_pages(index: VectorIndex) -> None:
    """Pages of a workspace's ids are ascending, without gaps or repetitions, and end with a short one."""
    await index.ensure(COLLECTION, DIMENSION, soon())
    await index.upsert(COLLECTION, points_of(50, HERE), unit_rows(50), soon())
    await index.upsert(COLLECTION, points_of(20, THERE), unit_rows(20), soon())
    for workspace, expected in ((HERE, points_of(50)), (None, points_of(50) + points_of(20, THERE))):
        seen: list[uuid.UUID] = []
        after = None
        while page := await index.ids(COLLECTION, workspace, after, 7, soon()):
            seen += page
            after = page[-1]
        assert seen == sorted(point.id for point in expected)
    assert await index.ids(COLLECTION, None, uuid.UUID(int=(1 << 128) - 1), 7, soon()) == ()


async def test_ensuring_twice_is_ensuring_once(index: VectorIndex) -> None:
    """E16: a collection that exists is left as it is, and another dimension for it is refused."""
    first = await index.ensure(COLLECTION, DIMENSION, soon())
    await index.upsert(COLLECTION, points_of(4), unit_rows(4), soon())

    second = await index.ensure(COLLECTION, DIMENSION, soon())

    assert (first.points, second.points) == (0, 4)
    assert second == replace(first, points=4) == await index.describe(COLLECTION, soon())
    with pytest.raises(DimensionMismatch) as refused:
        await index.ensure(COLLECTION, DIMENSION + 1, soon())
    assert refused.value.reason is StoreReason.FINGERPRINT_MISMATCH
    assert await index.count(COLLECTION, None, soon()) == 4


async def test_a_second_collection_is_built_beside_the_first(index: VectorIndex) -> None:
    """E16: collections of two models hold different dimensions and never answer for each other."""
    vectors = await filled(index, 10)
    await index.ensure(OTHER, 2 * DIMENSION, soon())
    await index.upsert(OTHER, points_of(5), unit_rows(5, 2 * DIMENSION), soon())

    assert await index.collections(soon()) == (COLLECTION, OTHER)
    assert len(await index.search(COLLECTION, nearest(vectors[0], 50), soon())) == 10
    with pytest.raises(DimensionMismatch):
        await index.search(OTHER, nearest(vectors[0], 50), soon())
    await index.drop(COLLECTION, soon())
    assert await index.collections(soon()) == (OTHER,)
    assert await index.count(OTHER, None, soon()) == 5


async def test_a_dropped_collection_is_missing(index: VectorIndex) -> None:
    """After a drop every use says so; dropping again is no error; made anew it is another incarnation."""
    vectors = await filled(index, 3)
    before = await index.describe(COLLECTION, soon())
    await index.drop(COLLECTION, soon())
    await index.drop(COLLECTION, soon())

    with pytest.raises(CollectionMissing):
        await index.search(COLLECTION, nearest(vectors[0], 1), soon())
    with pytest.raises(CollectionMissing):
        await index.upsert(COLLECTION, points_of(3), vectors, soon())
    with pytest.raises(CollectionMissing):
        await index.delete(COLLECTION, [uuid.uuid4()], soon())
    with pytest.raises(CollectionMissing) as missing:
        await index.describe(COLLECTION, soon())
    assert missing.value.reason is StoreReason.UNAVAILABLE
    after = await index.ensure(COLLECTION, DIMENSION, soon())
    assert after.points == 0
    assert after.incarnation != before.incarnation


def spoiled(value: float) -> NDArray[np.float32]:
    """A unit vector with one component replaced."""
    vector: NDArray[np.float32] = unit_rows(1)[0].copy()
    vector[3] = value
    return vector


@pytest.mark.parametrize(
    "vector",
    [spoiled(np.nan), spoiled(np.inf), spoiled(-np.inf), np.zeros(DIMENSION, np.float32), spoiled(9.0)],
    ids=["NaN", "infinity", "minus infinity", "zero", "not of unit length"],
)
async def test_invalid_vectors_are_refused(index: VectorIndex, vector: NDArray[np.float32]) -> None:
    """C27: a vector that is not finite or not of unit length is an error before any engine sees it."""
    await filled(index, 3)
    batch = np.stack([unit_rows(1)[0], vector])

    with pytest.raises(InvalidVector):
        await index.search(COLLECTION, nearest(vector, 3), soon())
    with pytest.raises(InvalidVector):
        await index.upsert(COLLECTION, points_of(2, THERE), batch, soon())
    assert await index.count(COLLECTION, None, soon()) == 3


@pytest.mark.parametrize("dimension", [1, DIMENSION - 1, DIMENSION + 1])
async def test_vectors_of_another_dimension_are_refused(index: VectorIndex, dimension: int) -> None:
    """C27: a vector of another dimension is a fingerprint mismatch, for a query and for a batch."""
    await filled(index, 3)

    with pytest.raises(DimensionMismatch) as refused:
        await index.search(COLLECTION, nearest(unit_rows(1, dimension)[0], 3), soon())
    with pytest.raises(DimensionMismatch):
        await index.upsert(COLLECTION, points_of(2), unit_rows(2, dimension), soon())
    assert refused.value.reason is StoreReason.FINGERPRINT_MISMATCH


async def test_a_passed_deadline_is_a_timeout(index: VectorIndex) -> None:
    """C27: a call whose deadline has passed raises the timeout and changes nothing."""
    vectors = await filled(index, 3)
    past = soon(-0.001)
    calls = [
        index.search(COLLECTION, nearest(vectors[0], 1), past),
        index.ensure(OTHER, DIMENSION, past),
        index.upsert(COLLECTION, points_of(2, THERE), vectors[:2], past),
        index.delete(COLLECTION, [points_of(1)[0].id], past),
        index.describe(COLLECTION, past),
        index.ids(COLLECTION, None, None, 10, past),
        index.count(COLLECTION, None, past),
        index.collections(past),
        index.drop(COLLECTION, past),
        index.health(past),
    ]

    answers = await asyncio.gather(*calls, return_exceptions=True)

    assert {type(answer) for answer in answers} == {VectorStoreTimeout}
    assert all(isinstance(a, VectorStoreError) and a.reason is StoreReason.TIMEOUT for a in answers)
    assert await index.collections(soon()) == (COLLECTION,)
    assert await index.count(COLLECTION, None, soon()) == 3


@pytest.mark.parametrize("limit", [0, -1, MAX_HITS + 1])
async def test_a_limit_out_of_range_is_the_callers_mistake(index: VectorIndex, limit: int) -> None:
    """Limits outside 1 … MAX_HITS never reach an engine."""
    vectors = await filled(index, 1)

    with pytest.raises(ValueError, match="limit"):
        await index.search(COLLECTION, nearest(vectors[0], limit), soon())
    with pytest.raises(ValueError, match="page"):
        await index.ids(COLLECTION, None, None, limit, soon())


async def test_a_batch_without_points_changes_nothing(index: VectorIndex) -> None:
    """Empty batches of points and ids are no error."""
    await filled(index, 2)

    await index.upsert(COLLECTION, [], np.empty((0, DIMENSION), np.float32), soon())
    await index.delete(COLLECTION, [], soon())

    assert await index.count(COLLECTION, None, soon()) == 2


async def test_names_of_any_kind_come_back_unchanged(index: VectorIndex) -> None:
    """Item ids and workspaces are plain text to the index: nothing in them has a meaning."""
    workspace = Workspace('w"\\ü\n*?')
    names = ["", "#1#2", "ñ/../x", "a" * 3000, "' OR 1=1 --", "日本語 🚪", "\t\x01", "NW-SL45/2"]
    points = [VectorPoint(workspace, ContentType.PDP, PointKey(ItemId(name), 2**31, 7)) for name in names]
    vectors = unit_rows(len(names))
    await index.ensure(COLLECTION, DIMENSION, soon())
    await index.upsert(COLLECTION, points, vectors, soon())

    for point, vector in zip(points, vectors, strict=True):
        hits = await index.search(COLLECTION, nearest(vector, 1, workspace), soon())
        assert [hit.key for hit in hits] == [point.key]


async def test_writers_and_readers_at_once(index: VectorIndex) -> None:
    """Twenty writers and a hundred readers at once: every point is stored and every answer is in order."""
    await index.ensure(COLLECTION, DIMENSION, soon())
    batches = [points_of(15, prefix=f"batch{number}") for number in range(20)]
    vectors = unit_rows(15)

    async def read() -> None:
        hits = await index.search(COLLECTION, nearest(vectors[0], 50), soon())
        assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.key))

    await asyncio.gather(
        *(index.upsert(COLLECTION, batch, vectors, soon()) for batch in batches),
        *(read() for _ in range(100)),
    )

    assert await index.count(COLLECTION, HERE, soon()) == 300


async def test_a_working_store_is_healthy(index: VectorIndex) -> None:
    """Health returns, before there is a collection and when there is one."""
    await index.health(soon())
    await filled(index, 1)
    await index.health(soon())
