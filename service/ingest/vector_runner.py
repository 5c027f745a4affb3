"""The worker's loop: step while there is work, rest while there is none, back off while something is down.

Once it has caught up, rows and points are compared now and then, and repaired when they differ.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from service.errors import Unavailable
from service.ingest.reconcile import MOST_PARKED, Comparison
from service.ingest.reconciling import RECONCILE_EVERY_S, Reconciler, unheard
from service.ingest.vectors import StepOutcome, VectorWorker
from service.ports.embedding import CollectionRole, EncoderFailed, EncoderState, KnownCollection
from service.ports.vectors import CollectionMissing, VectorStoreError

REST_S = 0.5
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
RETRY_PARKED_EVERY_S = 300.0


@dataclass(frozen=True, slots=True)
class VectorStatus:
    """How far the vector index is behind the rows. `pending` counts log entries, `lag_seconds` their age.

    `missing` (passages without all their points) and `orphan` (points without a passage) are those of the
    last comparison of ids, made at `compared_at`; all three are None before the first one. What pending
    changes explain is in neither, nor are parked passages.
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


@dataclass(slots=True)
class VectorRunner:
    """Runs one worker until it is told to stop. Never raises; the last failure is there to be seen.

    Rows and points are compared every `reconcile_every` seconds, for the first time soon after the worker has
    caught up; `tell` is called with a difference that nothing explains, before it is repaired.
    """

    worker: VectorWorker
    rest: float = REST_S
    reconcile_every: float = RECONCILE_EVERY_S
    tell: Callable[[Comparison], None] = unheard
    outcome: StepOutcome | None = None
    failure: str | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _parked_at: float = field(default_factory=time.monotonic)
    _reconciler: Reconciler = field(init=False)
    _caught_up: bool = False

    def __post_init__(self) -> None:
        """One reconciler a worker."""
        self._reconciler = Reconciler(self.worker, self.reconcile_every, self.tell)

    @property
    def comparison(self) -> Comparison | None:
        """The newest comparison of rows and points; None before the first."""
        return self._reconciler.last

    async def run(self) -> None:
        """Follow the log until `stop`."""
        try:
            await self._follow()
        finally:
            await self._reconciler.close()

    async def _follow(self) -> None:
        pause = FIRST_PAUSE_S
        while not self._stop.is_set():
            try:
                self.outcome = await self.worker.step()
                await self._tend(self.outcome)
            except (Unavailable, VectorStoreError, EncoderFailed) as error:
                self.failure = str(error)
                await self._sleep(pause)
                pause = min(pause * 2.0, LONGEST_PAUSE_S)
                continue
            self.failure, pause = None, FIRST_PAUSE_S
            if self.outcome is not StepOutcome.WORKED:
                await self._sleep(self.rest)

    async def until_idle(self, progress: Callable[[int], None] | None = None) -> StepOutcome:
        """Step until there is nothing more to do; what stopped it. Raises as `VectorWorker.step` does."""
        while (outcome := await self.worker.step()) is StepOutcome.WORKED:
            if progress is not None:
                progress(self.worker.counters.upserted)
        return outcome

    def stop(self) -> None:
        """End after the step in hand."""
        self._stop.set()

    async def _tend(self, outcome: StepOutcome) -> None:
        """What is done beside following the log, by the worker that holds the lease."""
        if outcome is StepOutcome.IDLE:
            self._caught_up = True
            await self._retry_parked()
        if self._caught_up and outcome in (StepOutcome.IDLE, StepOutcome.WORKED):
            await self._reconciler.turn()

    async def _retry_parked(self) -> None:
        if time.monotonic() - self._parked_at < RETRY_PARKED_EVERY_S:
            return
        self._parked_at = time.monotonic()
        collection = await self.worker.collection()
        if collection is not None:
            await self.worker.retry_parked(collection)

    async def _sleep(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return


@dataclass(frozen=True, slots=True)
class _Behind:
    """A collection's part of the status."""

    pending: int | None = None
    lag_seconds: float | None = None
    points: int | None = None
    parked: int = 0
    failure: str | None = None


async def vector_status(
    worker: VectorWorker, runner: VectorRunner | None, compared: Comparison | None = None
) -> VectorStatus:
    """What an operator is told. Never raises for the vector store's sake.

    `compared` is a comparison that was made for this status; without it the runner's newest one counts.
    """
    known = await worker.ledger.collections()
    collection = active_collection(known)
    behind = _Behind() if collection is None else await _behind(worker, collection)
    comparison = compared if compared is not None or runner is None else runner.comparison
    if collection is None or comparison is None or comparison.collection != collection.name:
        comparison = None  # it was of a collection that does not serve
    return VectorStatus(
        encoder=worker.encoder.state,
        encoder_failure=worker.encoder.failure,
        collection=collection,
        pending=behind.pending,
        lag_seconds=behind.lag_seconds,
        points=behind.points,
        parked=behind.parked,
        missing=None if comparison is None else comparison.missing,
        orphan=None if comparison is None else comparison.orphan,
        compared_at=None if comparison is None else comparison.at,
        outcome=None if runner is None else runner.outcome,
        failure=behind.failure or (None if runner is None else runner.failure),
    )


def active_collection(known: Sequence[KnownCollection]) -> KnownCollection | None:
    """The one that serves."""
    return next((one for one in reversed(known) if one.role is CollectionRole.ACTIVE), None)


async def _behind(worker: VectorWorker, collection: KnownCollection) -> _Behind:
    """How far a collection is. One that SQL knows and the index has not begun yet is empty, and no failure."""
    head = await worker.ledger.head()
    progress = await worker.ledger.progress(collection.name)
    applied = 0 if progress is None else progress.seq
    points, failure = None, None
    try:
        points = await worker.index.count(collection.name, None, time.monotonic() + 5.0)
    except CollectionMissing:
        points = applied = 0
    except VectorStoreError as error:
        failure = error.detail
    return _Behind(
        pending=head - applied,
        lag_seconds=await worker.ledger.lag_seconds(applied),
        points=points,
        parked=len(await worker.ledger.parked(collection.name, MOST_PARKED)),
        failure=failure,
    )
