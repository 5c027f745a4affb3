"""Comparing rows and points now and then, beside the worker, and repairing what nothing explains."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from service.ingest.reconcile import Comparison, compare, repaired
from service.ingest.trimming import TextsInUse, trim_cache
from service.ingest.vectors import VectorWorker
from service.ports.embedding import KnownCollection

RECONCILE_EVERY_S = 600.0
AFTER_FAILURE_S = 60.0  # until the next try when the comparison or the repair could not be carried out
PAGE_PAUSE_S = 0.01  # requests come first: comparing takes at most about half of a core


def unheard(_: Comparison) -> None:
    """Nobody is told."""


@dataclass(frozen=True, slots=True)
class _Comparing:
    """A comparison in the background."""

    collection: KnownCollection
    in_use: TextsInUse
    task: asyncio.Task[Comparison]


@dataclass(slots=True)
class Reconciler:
    """A runner gives it a turn between two steps; only the comparison itself runs in the background.

    A repair is made within the turn, so that no step of the same worker comes between reading a row and
    writing its points. `tell` is called with each difference before it is repaired; `last` is the newest
    comparison. Where nothing differs the cache is trimmed.
    """

    worker: VectorWorker
    every: float = RECONCILE_EVERY_S
    tell: Callable[[Comparison], None] = unheard
    last: Comparison | None = None
    _due: float = float("-inf")
    _forks: int = 0  # of the log, as the newest comparison knew them
    _comparing: _Comparing | None = None
    _proving: bool = False

    async def turn(self) -> None:
        """Begin the comparison that is due, or take the one that is done and repair what it found.

        Raises StoreUnavailable, VectorStoreError, EncoderFailed; it is tried again later.
        """
        comparing = self._comparing
        if comparing is None and (time.monotonic() >= self._due or self._is_forked):
            collection = await self.worker.collection()
            if collection is not None:
                in_use, self._forks = TextsInUse(), self.worker.ledger.forks
                task = asyncio.create_task(compare(self.worker, collection, PAGE_PAUSE_S, in_use))
                self._comparing = _Comparing(collection, in_use, task)
        elif comparing is not None and comparing.task.done():
            self._comparing = None
            await self._conclude(comparing)

    @property
    def _is_forked(self) -> bool:
        """Whether the database was put back: the points of the history that was lost are still there."""
        return self.worker.ledger.forks != self._forks

    async def close(self) -> None:
        """Give up the comparison in hand."""
        comparing, self._comparing = self._comparing, None
        if comparing is not None:
            comparing.task.cancel()
            await asyncio.wait([comparing.task])
            if not comparing.task.cancelled():
                comparing.task.exception()  # seen, and of no interest any more

    async def _conclude(self, comparing: _Comparing) -> None:
        self._due = time.monotonic() + min(self.every, AFTER_FAILURE_S)  # unless it goes well
        proving, self._proving = self._proving, False
        self.last = comparing.task.result()
        if self.last.differs:
            self.tell(self.last)
            await repaired(self.worker, comparing.collection)
            self._proving = not proving  # whether it helped is seen at once; if not, it waits its turn
        else:
            await trim_cache(self.worker.ledger, comparing.collection.fingerprint, comparing.in_use)
        self._due = time.monotonic() + (0.0 if self._proving else self.every)
