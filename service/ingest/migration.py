"""Changing the model: a second collection is built while the first serves, checked, and switched to.

A build that fails or is stopped changes nothing: the half-built collection is taken up again by the next try.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.errors import Conflict, Unavailable
from service.ingest.lease import LeaseLost
from service.ingest.reconcile import compare, repaired
from service.ingest.store_pointer import repair_pointer
from service.ingest.vectors import StepOutcome, VectorWorker, new_collection
from service.ports.embedding import CollectionRole, Embeddable, EncoderFailed, EncoderState, KnownCollection
from service.ports.vectors import VectorQuery, VectorStoreError

if TYPE_CHECKING:
    from service.ports.vectors import Float32Array

SAMPLE = 50  # queries of the recall check
DEPTH = 10
PAGE = 512
LOWEST_RECALL = 0.95


class MigrationRefused(Conflict):
    """The new collection is not what it should be; the old one goes on serving."""

    code = "migration_refused"
    title = "Migration refused"


@dataclass(frozen=True, slots=True)
class Migration:
    """What was switched to. `recall` is recall@10 of the index against brute force on a sample.

    `is_pointed` is False while the store's own pointer still lags behind; the worker moves it.
    """

    collection: KnownCollection
    switched: bool
    passages: int
    points: int
    recall: float | None
    is_pointed: bool = True


async def migrate(worker: VectorWorker, progress: Callable[[int], None] | None = None) -> Migration:
    """Build, check and activate the collection of the worker's model, alone.

    Raises MigrationRefused, EncoderFailed, and Unavailable while another process is at it.
    """
    if worker.encoder.state is not EncoderState.READY:
        raise EncoderFailed(worker.encoder.failure or "the model is not loaded")
    known = await worker.ledger.collections()
    mine = [one for one in known if one.fingerprint == worker.encoder.fingerprint]
    active = next((one for one in mine if one.role is CollectionRole.ACTIVE), None)
    if active is not None:
        pointed = await _is_pointed(worker)
        return Migration(active, switched=False, passages=0, points=0, recall=None, is_pointed=pointed)
    building = next((one for one in mine if one.role is CollectionRole.BUILDING), None)
    if building is None:
        building = new_collection(
            worker.encoder, worker.model, generation=len(mine) + 1, role=CollectionRole.BUILDING
        )
        await worker.ledger.register(building)
    try:
        passages, points, recall = await _built(worker, building, progress)
    except LeaseLost as lost:
        raise Unavailable(f"another process is building {building.name}") from lost
    pointed = await _is_pointed(worker)
    return Migration(
        building, switched=True, passages=passages, points=points, recall=recall, is_pointed=pointed
    )


async def _is_pointed(worker: VectorWorker) -> bool:
    """Move the store's own pointer. The switch is made in SQL: a pointer that cannot be moved undoes nothing."""
    try:
        await repair_pointer(worker.ledger, worker.index)
    except (VectorStoreError, Unavailable):
        return False
    return True


async def _built(
    worker: VectorWorker, building: KnownCollection, progress: Callable[[int], None] | None
) -> tuple[int, int, float]:
    """Passages, points and recall of the collection that serves now. Raises MigrationRefused, LeaseLost."""
    await _caught_up(worker, building, progress)
    passages = await _checked(worker, building)
    recall = await sample_recall(worker, building)
    if recall < LOWEST_RECALL:
        raise MigrationRefused(f"the new collection's recall@{DEPTH} against brute force is {recall:.3f}")
    await _caught_up(worker, building, progress)  # with what was captured while it was checked
    points = await worker.index.count(building.name, None, time.monotonic() + 30.0)
    await worker.require(building)
    await worker.ledger.activate(building.name)
    return passages, points, recall


async def _caught_up(
    worker: VectorWorker, building: KnownCollection, progress: Callable[[int], None] | None
) -> None:
    while await worker.follow(building) is StepOutcome.WORKED:
        if progress is not None:
            progress(worker.counters.upserted)


async def _checked(worker: VectorWorker, building: KnownCollection) -> int:
    """The passages of a complete collection; what is parked, or changes meanwhile, is no lack.

    Raises MigrationRefused.
    """
    passages = (await repaired(worker, building)).passages
    found = await compare(worker, building)
    if found.differs:
        raise MigrationRefused(
            f"the new collection lacks {found.missing} passages and has {found.orphan} points too many"
        )
    return passages


async def sample_recall(worker: VectorWorker, collection: KnownCollection, seed: int = 0) -> float:
    """Recall@10 of the index on a sample of the passages' own vectors, against all vectors there are."""
    passages = await _live(worker)
    if not passages:
        return 1.0
    sample = random.Random(seed).sample(passages, min(SAMPLE, len(passages)))  # noqa: S311 - a sample
    vectors = await worker.ledger.cached(collection.fingerprint, [one.text_hash for one in sample])
    asked = [(one, vectors[one.text_hash][0]) for one in sample if len(vectors.get(one.text_hash, ()))]
    exact = await _brute_force(worker, collection, passages, asked)
    hits = wanted = 0
    for (one, vector), (threshold, size) in zip(asked, exact, strict=True):
        query = VectorQuery(vector, one.workspace, None, size)
        found = await worker.index.search(collection.name, query, time.monotonic() + 30.0)
        hits += sum(1 for hit in found if hit.score >= threshold - 1e-4)
        wanted += size
    return hits / wanted if wanted else 1.0


async def _live(worker: VectorWorker) -> list[Embeddable]:
    found: list[Embeddable] = []
    after: int | None = None
    while page := await worker.ledger.embeddable(None, after, PAGE):
        after = page[-1].passage_key
        found += page
    return found


async def _brute_force(
    worker: VectorWorker,
    collection: KnownCollection,
    passages: Sequence[Embeddable],
    asked: Sequence[tuple[Embeddable, Float32Array]],
) -> list[tuple[float, int]]:
    """Per query the cosine of its tenth nearest window, and how many windows (at most ten) there are."""
    import numpy as np  # optional: there are no vectors without it  # noqa: PLC0415

    best: list[list[float]] = [[] for _ in asked]
    if not asked:
        return []
    queries = np.stack([vector for _, vector in asked])
    for start in range(0, len(passages), PAGE):
        page = passages[start : start + PAGE]
        vectors = await worker.ledger.cached(collection.fingerprint, [one.text_hash for one in page])
        windows = [(one.workspace, row) for one in page for row in vectors.get(one.text_hash, ())]
        if not windows:
            continue
        scores = np.stack([row for _, row in windows]) @ queries.T
        for place, (query, _) in enumerate(asked):
            own = [row for row, (workspace, _) in enumerate(windows) if workspace == query.workspace]
            merged = [*best[place], *scores[own, place].tolist()]
            best[place] = sorted(merged, reverse=True)[:DEPTH]
    return [(scores[-1] if scores else 0.0, len(scores)) for scores in best]
