"""Reconcile: compare rows and points by exact id difference, and repair through the worker's own path."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from service.errors import Unavailable
from service.ingest.changed import PAGE, passages_changed
from service.ingest.trimming import TextsInUse
from service.ingest.vectors import MOST_PARKED, UNKNOWN_WINDOWS, VectorWorker
from service.ports.embedding import Embeddable, KnownCollection
from service.ports.vectors import MAX_PAGE, CollectionName, PointKey, point_id

CALL_S = 60.0


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What was found, in passages for `missing` and in points for the others, and whether it was repaired."""

    passages: int
    points: int
    missing: int
    orphans: int
    repaired: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """What rows and points differ in that nothing explains, and the moment the comparison began.

    `missing` counts passages without all their points, `orphan` points without a live passage. Passages that
    the change log still speaks of, and those that are parked, are in neither.
    """

    collection: CollectionName
    at: datetime
    missing: int
    orphan: int

    @property
    def differs(self) -> bool:
        """Whether there is anything to repair."""
        return self.missing > 0 or self.orphan > 0


async def reconcile(worker: VectorWorker, collection: KnownCollection, *, repair: bool) -> Reconciliation:
    """Every live scorable passage must have all its windows, and no other point may exist.

    A passage whose text was never encoded counts as missing, and so does a parked one; before a repair all of
    these are tried again. Holds the ids of one collection in memory, 16 bytes each and Python's overhead.

    Raises Unavailable when a repair is asked for and another worker has the collection.
    """
    if not repair:
        return await _reconciled(worker, collection, repair=False)
    if not await worker.hold(collection):
        raise Unavailable(
            f"another worker has {collection.name}, and repairs what it finds every ten minutes: stop it first"
        )
    await worker.retry_parked(collection)
    return await repaired(worker, collection)


async def repaired(worker: VectorWorker, collection: KnownCollection) -> Reconciliation:
    """The same; parked passages are left alone. Raises LeaseLost."""
    return await _reconciled(worker, collection, repair=True)


async def _reconciled(worker: VectorWorker, collection: KnownCollection, *, repair: bool) -> Reconciliation:
    parked = await _parked(worker, collection)
    strays = await _present(worker, collection)
    points, passages, missing = len(strays), 0, 0
    async for page in _live(worker):
        lacking = await _lacking(worker, collection, page, strays)
        passages += len(page)
        missing += len(lacking)
        if repair and lacking:
            await worker.write(collection, [one for one in lacking if one.passage_key not in parked])
            await _lacking(worker, collection, lacking, strays)  # what has just been written is no stray
    orphans = len(strays)
    if repair:
        await _delete(worker, collection, strays)
    return Reconciliation(passages, points, missing, orphans, repaired=repair)


async def compare(
    worker: VectorWorker, collection: KnownCollection, pause: float = 0.0, in_use: TextsInUse | None = None
) -> Comparison:
    """The same without repair, beside a worker that goes on; rests `pause` seconds after each page.

    What is read first may change before the rest is read. So an item that the log speaks of after what the
    index had at the beginning is left out: every other item was the same on both sides all the time. `in_use`
    is told of every live text.
    """
    began = datetime.now(UTC)
    live = TextsInUse() if in_use is None else in_use
    live.since = await _applied(worker, collection)
    parked = await _parked(worker, collection)
    strays = await _present(worker, collection)
    lacking: set[int] = set()
    async for page in _live(worker):
        live.add(page)
        found = await _lacking(worker, collection, page, strays)
        lacking.update(passage.passage_key for passage in found)
        await asyncio.sleep(pause)
    if lacking or strays:
        lacking -= parked | await _parked(worker, collection)
        async for passages in passages_changed(worker.ledger, live.since):
            await _explain(worker, collection, passages, lacking, strays)
    return Comparison(collection.name, began, len(lacking), len(strays))


async def _applied(worker: VectorWorker, collection: KnownCollection) -> int:
    """The log entry up to which the index has everything; 0 where it has lost what it had."""
    progress = await worker.ledger.progress(collection.name)
    state = await worker.index.describe(collection.name, _soon())
    return 0 if progress is None or progress.incarnation != state.incarnation else progress.seq


async def _parked(worker: VectorWorker, collection: KnownCollection) -> set[int]:
    return {one.passage_key for one in await worker.ledger.parked(collection.name, MOST_PARKED)}


async def _live(worker: VectorWorker) -> AsyncIterator[Sequence[Embeddable]]:
    after: int | None = None
    while page := await worker.ledger.embeddable(None, after, PAGE):
        after = page[-1].passage_key
        yield page


async def _lacking(
    worker: VectorWorker, collection: KnownCollection, page: Sequence[Embeddable], strays: set[uuid.UUID]
) -> list[Embeddable]:
    """The passages of a page without all their points in `strays`; what they do have is taken out of it.

    No other passage can want those points: an id belongs to one window of one passage. A passage in which the
    model sees no token has no window, and lacks nothing.
    """
    windows = await worker.ledger.cached_windows(collection.fingerprint, [p.text_hash for p in page])
    lacking = []
    for passage in page:
        ids = list(_ids(passage, windows.get(passage.text_hash, 0)))
        if passage.text_hash not in windows or not strays.issuperset(ids):
            lacking.append(passage)
        strays.difference_update(ids)
    return lacking


async def _explain(
    worker: VectorWorker,
    collection: KnownCollection,
    passages: Sequence[Embeddable],
    lacking: set[int],
    strays: set[uuid.UUID],
) -> None:
    """Take passages that the worker is about to see, and every point of theirs, out of what differs."""
    windows = await worker.ledger.cached_windows(collection.fingerprint, [p.text_hash for p in passages])
    for passage in passages:
        lacking.discard(passage.passage_key)
        strays.difference_update(_ids(passage, windows.get(passage.text_hash, UNKNOWN_WINDOWS)))


def _ids(passage: Embeddable, windows: int) -> Iterator[uuid.UUID]:
    return (
        point_id(passage.workspace, PointKey(passage.item_id, passage.seq, window))
        for window in range(windows)
    )


async def _present(worker: VectorWorker, collection: KnownCollection) -> set[uuid.UUID]:
    present: set[uuid.UUID] = set()
    after: uuid.UUID | None = None
    while True:
        page = await worker.index.ids(collection.name, None, after, MAX_PAGE, _soon())
        present.update(page)
        if len(page) < MAX_PAGE:
            return present
        after = page[-1]


async def _delete(worker: VectorWorker, collection: KnownCollection, strays: set[uuid.UUID]) -> None:
    left = iter(strays)
    while part := list(islice(left, MAX_PAGE)):
        await worker.require(collection)
        await worker.index.delete(collection.name, part, _soon())


def _soon() -> float:
    return time.monotonic() + CALL_S
