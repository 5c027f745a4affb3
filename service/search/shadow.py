"""Shadow mode: requests that were served lexically are ranked both ways in the background and compared.

Whoever serves hands a request over and goes on at once. What is over the bounds is dropped and counted, and so
is what fails; nothing of it reaches a caller.
"""

import asyncio
import contextvars
import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

from service.errors import CitewellError
from service.model import Workspace
from service.ports.shadow import Retention, ShadowComparison, ShadowLedger
from service.search.rank_moves import CUTOFF, overlap, rank_moves
from service.search.request import Answer, Arms, ArmState, RetrieveOptions, Subject
from service.search.retrieve import Retriever
from service.search.shadow_report import ShadowReport, shadow_report
from service.search.subjects import subject_fingerprint

Observer = Callable[[ShadowComparison], None]


@dataclass(frozen=True, slots=True)
class ShadowSettings:
    """Bounds. `budget`, `give_up` and `linger` are in seconds: the vector arm's in the background, a whole
    comparison's, and how long comparisons are gathered before they are stored together.

    `key` is mixed into the queries' hashes, so that they cannot be looked up: the database's id will do.
    """

    concurrency: int = 2
    queue: int = 64
    budget: float = 5.0
    give_up: float = 30.0
    linger: float = 1.0
    unwritten: int = 1_000
    key: str = ""
    retention: Retention = field(default_factory=Retention)


@dataclass(slots=True)
class ShadowCounters:
    """What became of the requests since the start.

    `dropped` found no room, `failed` raised or took too long, `lost` were compared and could not be stored.
    """

    compared: int = 0
    dropped: int = 0
    failed: int = 0
    stored: int = 0
    lost: int = 0


class ShadowRunner:
    """Compares in the background. `compare` is what `Hybrid.shadow` takes. Belongs to one event loop."""

    def __init__(
        self,
        retriever: Retriever,
        ledger: ShadowLedger,
        clock: Callable[[], datetime],
        settings: ShadowSettings,
    ) -> None:
        self._retriever = retriever
        self._ledger = ledger
        self._clock = clock
        self._settings = settings
        self._waiting: deque[tuple[Subject, RetrieveOptions]] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._unwritten: list[ShadowComparison] = []
        self._writer: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._closed = False
        self._observers: list[Observer] = []
        self.counters = ShadowCounters()

    def watch(self, observer: Observer) -> None:
        """Have somebody told of each comparison, whether or not it can be stored. It must not raise."""
        self._observers.append(observer)

    def compare(self, subject: Subject, options: RetrieveOptions, _: Answer) -> None:
        """Take a served request over. Later pages and drills say nothing of the ranking and are left out."""
        if self._closed or options.cursor is not None or options.drill is not None:
            return
        if len(self._running) < self._settings.concurrency:
            self._start(subject, options)
        elif len(self._waiting) < self._settings.queue:
            self._waiting.append((subject, options))
        else:
            self.counters.dropped += 1

    async def report(self, workspace: Workspace | None, since: datetime) -> ShadowReport:
        """What has been stored since a moment, of one workspace or of all. Raises StoreUnavailable."""
        return await shadow_report(self._ledger, workspace, since)

    async def drain(self) -> None:
        """Wait until everything taken over so far is compared and stored, or counted as not."""
        while self._running:
            await asyncio.wait(self._running)
            await asyncio.sleep(0)  # the next ones are started by callbacks
        self._hurry.set()
        if self._writer is not None:
            await asyncio.wait([self._writer])
        self._hurry.clear()

    async def close(self) -> None:
        """Give up what is not compared yet and store what is."""
        self._closed = True
        self.counters.dropped += len(self._waiting)
        self._waiting.clear()
        for task in self._running:
            task.cancel()
        await self.drain()

    def _start(self, subject: Subject, options: RetrieveOptions) -> None:
        task = _in_background(self._compare(subject, options))
        self._running.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if task.cancelled():
            self.counters.dropped += 1
        elif task.exception() is not None:  # whatever it was: no caller hears of it
            self.counters.failed += 1
        if self._waiting:
            self._start(*self._waiting.popleft())

    async def _compare(self, subject: Subject, options: RetrieveOptions) -> None:
        own = replace(options, arrived=None)  # a comparison is a request of its own
        asked = replace(own, limit=CUTOFF, budget=self._settings.budget)
        async with asyncio.timeout(self._settings.give_up):
            lexical, lexical_ms = await self._timed(subject, replace(asked, arms=Arms.LEXICAL))
            hybrid, hybrid_ms = await self._timed(subject, replace(asked, arms=Arms.HYBRID))
        ran = hybrid.vector.state is ArmState.RAN
        before, after = _names(lexical), _names(hybrid)
        self.counters.compared += 1
        comparison = ShadowComparison(
            workspace=options.workspace,
            at=self._clock(),
            subject=subject_fingerprint(subject)[0],
            query_hash=query_hash(subject, self._settings.key),
            lexical_ms=lexical_ms,
            hybrid_ms=hybrid_ms,
            degraded=None if ran else hybrid.vector.reason,
            overlap=overlap(before, after) if ran else None,
            moves=rank_moves(before, after) if ran else (),
        )
        self._keep(comparison)
        for observer in self._observers:
            observer(comparison)

    async def _timed(self, subject: Subject, options: RetrieveOptions) -> tuple[Answer, float]:
        began = time.perf_counter()
        answer = await self._retriever.retrieve(subject, options)
        return answer, (time.perf_counter() - began) * 1_000

    def _keep(self, comparison: ShadowComparison) -> None:
        if len(self._unwritten) >= self._settings.unwritten:
            self.counters.lost += 1
            return
        self._unwritten.append(comparison)
        if self._writer is None or self._writer.done():
            self._writer = _in_background(self._write_later())
            self._writer.add_done_callback(_take_note)

    async def _write_later(self) -> None:
        """A write costs the disk a flush; comparisons of a while share it."""
        while self._unwritten:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.linger):
                    await self._hurry.wait()
            await self._write()

    async def _write(self) -> None:
        comparisons, self._unwritten = self._unwritten, []
        self.counters.lost += len(comparisons)  # until they are stored
        with suppress(CitewellError):
            await self._ledger.add(comparisons, self._settings.retention)
            self.counters.lost -= len(comparisons)
            self.counters.stored += len(comparisons)


def query_hash(subject: Subject, key: str) -> str:
    """Equal for requests that ask the same; 128 bits in hexadecimal, useless without the key."""
    asked = json.dumps(subject_fingerprint(subject)).encode()
    secret = hashlib.sha256(key.encode()).digest()
    return hashlib.blake2b(asked, key=secret, digest_size=16).hexdigest()


def _names(answer: Answer) -> list[str]:
    return [passage.passage_id for passage in answer.results]


def _in_background(work: Coroutine[None, None, None]) -> asyncio.Task[None]:
    """A task that inherits nothing of the request in which it happens to be started."""
    return asyncio.create_task(work, context=contextvars.Context())


def _take_note(task: asyncio.Task[None]) -> None:
    """An exception that somebody has looked at; what it cost is counted already."""
    if not task.cancelled():
        task.exception()
