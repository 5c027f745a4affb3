"""How far the vector index is and how its workers are, as this process and all the others know it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from service.ingest.reconcile import Comparison
from service.ingest.vector_faults import fault_of
from service.ingest.vector_reporting import noted, reported_faults
from service.ingest.vector_runner import VectorRunner
from service.ingest.vectors import MOST_PARKED, StepOutcome, VectorWorker
from service.ports.embedding import CollectionRole, EncoderState, KnownCollection
from service.ports.vector_reports import NotedComparison, SeenWorker, VectorFault, VectorReports
from service.ports.vectors import CollectionMissing, VectorStoreError

PATIENCE_S = 5.0  # for the vector store


@dataclass(frozen=True, slots=True)
class VectorStatus:
    """How far the vector index is behind the rows. `pending` counts log entries, `lag_seconds` their age.

    `missing` (passages without all their points) and `orphan` (points without a passage) are those of the
    last comparison of ids, made at `compared_at` by the process `compared_by`; all are None before the first
    one. What pending changes explain is in neither, nor are parked passages. `fault` is the part that is not
    well and `failure` what it said: here, or else where the worker is. `workers` are those of every process.
    """

    encoder: EncoderState
    encoder_failure: str | None
    collection: KnownCollection | None
    pending: int | None
    lag_seconds: float | None
    points: int | None
    parked: int
    missing: int | None
    orphan: int | None
    compared_at: datetime | None
    outcome: StepOutcome | None
    failure: str | None
    fault: VectorFault | None = None
    compared_by: str | None = None
    workers: Sequence[SeenWorker] = ()


@dataclass(frozen=True, slots=True)
class _Trouble:
    """A part that is not well, and what it said."""

    fault: VectorFault | None = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class _Behind:
    """A collection's part of the status."""

    pending: int | None = None
    lag_seconds: float | None = None
    points: int | None = None
    parked: int = 0
    trouble: _Trouble = _Trouble()


async def vector_status(
    worker: VectorWorker,
    runner: VectorRunner | None,
    compared: Comparison | None = None,
    reports: VectorReports | None = None,
    patience: float = PATIENCE_S,
) -> VectorStatus:
    """What an operator is told. Raises StoreUnavailable; a vector store that fails, or takes longer than
    `patience` seconds, is a fault and no error.

    `compared` is a comparison that was made for this status. The newest counts: this one, the runner's, or
    that which another process left with `reports`.
    """
    known = await worker.ledger.collections()
    collection = active_collection(known)
    behind = _Behind() if collection is None else await _behind(worker, collection, patience)
    newest = None if collection is None else await _newest(collection, (compared, runner), reports)
    workers = () if reports is None else await reports.workers()
    trouble = _trouble(behind, runner, collection, workers)
    return VectorStatus(
        encoder=worker.encoder.state,
        encoder_failure=worker.encoder.failure,
        collection=collection,
        pending=behind.pending,
        lag_seconds=behind.lag_seconds,
        points=behind.points,
        parked=behind.parked,
        missing=None if newest is None else newest.missing,
        orphan=None if newest is None else newest.orphan,
        compared_at=None if newest is None else newest.at,
        outcome=None if runner is None else runner.outcome,
        failure=trouble.failure,
        fault=trouble.fault,
        compared_by=None if newest is None else newest.by,
        workers=workers,
    )


def active_collection(known: Sequence[KnownCollection]) -> KnownCollection | None:
    """The one that serves."""
    return next((one for one in reversed(known) if one.role is CollectionRole.ACTIVE), None)


async def _newest(
    collection: KnownCollection,
    own: tuple[Comparison | None, VectorRunner | None],
    reports: VectorReports | None,
) -> NotedComparison | None:
    """The newest comparison of the collection that serves; those of others say nothing of it."""
    compared, runner = own
    told = None if reports is None else await reports.comparison(collection.name)
    here = [compared, None if runner is None else runner.comparison]
    found = [noted(one) for one in here if one is not None and one.collection == collection.name]
    if told is not None:
        found.append(told)
    return max(found, key=lambda one: one.at, default=None)


def _trouble(
    behind: _Behind,
    runner: VectorRunner | None,
    collection: KnownCollection | None,
    workers: Sequence[SeenWorker],
) -> _Trouble:
    """What this process sees comes first: the store, its own runner, and then what others report."""
    if behind.trouble.fault is not None:
        return behind.trouble
    if runner is not None:
        return _Trouble(runner.fault, runner.failure)
    model = None if collection is None else collection.model
    fault, failure = reported_faults([one for one in workers if model in (None, one.model)])
    return _Trouble(fault, failure)


async def _behind(worker: VectorWorker, collection: KnownCollection, patience: float) -> _Behind:
    """How far a collection is. One that SQL knows and the index has not begun yet is empty, and no failure."""
    head = await worker.ledger.head()
    progress = await worker.ledger.progress(collection.name)
    applied = 0 if progress is None else progress.seq
    points, trouble = None, _Trouble()
    try:
        points = await worker.index.count(collection.name, None, time.monotonic() + patience)
    except CollectionMissing:
        points = applied = 0
    except VectorStoreError as error:
        trouble = _Trouble(fault_of(error), error.detail)
    return _Behind(
        pending=head - applied,
        lag_seconds=await worker.ledger.lag_seconds(applied),
        points=points,
        parked=len(await worker.ledger.parked(collection.name, MOST_PARKED)),
        trouble=trouble,
    )
