"""Reconcile: compare rows and points by exact id difference, and repair through the worker's own path."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass

from service.ingest.vectors import VectorWorker
from service.ports.embedding import Embeddable, KnownCollection
from service.ports.vectors import MAX_PAGE, PointKey, point_id

PAGE = 512


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What was found, in passages for `missing` and in points for the others, and whether it was repaired."""

    passages: int
    points: int
    missing: int
    orphans: int
    repaired: bool


async def reconcile(worker: VectorWorker, collection: KnownCollection, *, repair: bool) -> Reconciliation:
    """Every live scorable passage must have all its windows, and no other point may exist.

    A passage whose text was never encoded counts as missing. Holds the ids of one collection in memory,
    16 bytes each and Python's overhead.
    """
    present = await _present(worker, collection)
    expected: set[uuid.UUID] = set()
    missing = passages = 0
    after: int | None = None
    while page := await worker.ledger.embeddable(None, after, PAGE):
        after = page[-1].passage_key
        passages += len(page)
        windows = await worker.ledger.cached_windows(collection.fingerprint, [p.text_hash for p in page])
        lacking: list[Embeddable] = []
        for passage in page:
            ids = [
                point_id(passage.workspace, PointKey(passage.item_id, passage.seq, window))
                for window in range(windows.get(passage.text_hash, 0))
            ]
            expected.update(ids)
            if not ids or any(point not in present for point in ids):
                lacking.append(passage)
        missing += len(lacking)
        if repair and lacking:
            await worker.write(collection, lacking)
            expected.update(await _ids_now(worker, collection, lacking))
    orphans = present - expected
    if repair:
        for start in range(0, len(orphans), MAX_PAGE):
            part = sorted(orphans)[start : start + MAX_PAGE]
            await worker.index.delete(collection.name, part, time.monotonic() + 60.0)
    return Reconciliation(passages, len(present), missing, len(orphans), repaired=repair)


async def _ids_now(
    worker: VectorWorker, collection: KnownCollection, passages: list[Embeddable]
) -> set[uuid.UUID]:
    windows = await worker.ledger.cached_windows(collection.fingerprint, [p.text_hash for p in passages])
    return {
        point_id(passage.workspace, PointKey(passage.item_id, passage.seq, window))
        for passage in passages
        for window in range(windows.get(passage.text_hash, 0))
    }


async def _present(worker: VectorWorker, collection: KnownCollection) -> set[uuid.UUID]:
    present: set[uuid.UUID] = set()
    after: uuid.UUID | None = None
    while True:
        page = await worker.index.ids(collection.name, None, after, MAX_PAGE, time.monotonic() + 60.0)
        present.update(page)
        if len(page) < MAX_PAGE:
            return present
        after = page[-1]
