"""The worker's loop: step while there is work, rest while there is none, back off while something is down."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from service.errors import Unavailable
from service.ingest.vectors import StepOutcome, VectorWorker
from service.ports.embedding import EncoderFailed, EncoderState, KnownCollection
from service.ports.vectors import VectorStoreError

REST_S = 0.5
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
RETRY_PARKED_EVERY_S = 300.0


@dataclass(frozen=True, slots=True)
class VectorStatus:
    """How far the vector index is behind the rows. `pending` counts log entries, `lag_seconds` their age."""

    encoder: EncoderState
    encoder_failure: str | None
    collection: KnownCollection | None
    pending: int | None
    lag_seconds: float | None
    points: int | None
    parked: int
    outcome: StepOutcome | None
    failure: str | None


@dataclass(slots=True)
class VectorRunner:
    """Runs one worker until it is told to stop. Never raises; the last failure is there to be seen."""

    worker: VectorWorker
    rest: float = REST_S
    outcome: StepOutcome | None = None
    failure: str | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _parked_at: float = field(default_factory=time.monotonic)

    async def run(self) -> None:
        """Follow the log until `stop`."""
        pause = FIRST_PAUSE_S
        while not self._stop.is_set():
            try:
                self.outcome = await self.worker.step()
                if self.outcome is StepOutcome.IDLE:
                    await self._retry_parked()
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


async def vector_status(worker: VectorWorker, runner: VectorRunner | None) -> VectorStatus:
    """What an operator is told. Never raises for the vector store's sake."""
    known = await worker.ledger.collections()
    collection = next((one for one in reversed(known) if one.role == "active"), None)
    pending = lag = points = None
    parked = 0
    failure = None if runner is None else runner.failure
    if collection is not None:
        head = await worker.ledger.head()
        progress = await worker.ledger.progress(collection.name)
        pending = head if progress is None else head - progress.seq
        lag = await worker.ledger.lag_seconds(0 if progress is None else progress.seq)
        parked = len(await worker.ledger.parked(collection.name, 1_000))
        try:
            points = await worker.index.count(collection.name, None, time.monotonic() + 5.0)
        except VectorStoreError as error:
            failure = error.detail
    return VectorStatus(
        encoder=worker.encoder.state,
        encoder_failure=worker.encoder.failure,
        collection=collection,
        pending=pending,
        lag_seconds=lag,
        points=points,
        parked=parked,
        outcome=None if runner is None else runner.outcome,
        failure=failure,
    )
