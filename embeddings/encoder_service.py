"""The asynchronous door to an encoder: deadlines, cache and recovery. Nothing is encoded on the event loop."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from embeddings.encoder import Encoder, require_encodable
from embeddings.encoder_settings import EncoderSettings, ServiceLimits
from embeddings.encoder_state import EncoderCounters, EncoderReading, EncoderState, Phase, WorkCounts
from embeddings.encoder_worker import EncoderWorker
from embeddings.errors import (
    EncoderClosed,
    EncoderNotReady,
    EncodingTimedOut,
    InvalidText,
    Overloaded,
    UnsuitableModel,
)
from embeddings.fingerprint import Fingerprint
from embeddings.loader import load_encoder
from embeddings.query_cache import CacheKey, Role, VectorCache
from embeddings.vectors import Vectors

_log = logging.getLogger(__name__)
_MOST_ABANDONED = 2  # each may hold a model in memory for ever
_READY_POLL_S = 0.02
Answer = TypeVar("Answer")


class EncoderService:
    """Belongs to one event loop. `start` returns at once; the model loads behind it and may fail and retry."""

    def __init__(self, load: Callable[[], Encoder], limits: ServiceLimits | None = None) -> None:
        self._load = load
        self._limits = limits or ServiceLimits()
        self._cache = VectorCache(self._limits.cached_queries)
        self._worker: EncoderWorker | None = None
        self._abandoned: list[EncoderWorker] = []
        self._fingerprint: Fingerprint | None = None
        self._closed = False
        self._hits = self._misses = self._overloads = self._timeouts = 0

    @classmethod
    def of(cls, settings: EncoderSettings, limits: ServiceLimits | None = None) -> "EncoderService":
        """The service of the model that the settings name."""
        return cls(partial(load_encoder, settings), limits)

    def start(self) -> None:
        """Begin to load in the background. Starting twice is starting once."""
        if self._worker is None and not self._closed:
            self._worker = self._new_worker()

    @property
    def state(self) -> EncoderState:
        """Absent before `start`, closed after `close`, else what the worker is at."""
        if self._closed:
            return EncoderState(Phase.CLOSED)
        return EncoderState(Phase.ABSENT) if self._worker is None else self._worker.state

    @property
    def fingerprint(self) -> Fingerprint | None:
        """What every vector of this service depends on; None until the model was loaded, then constant."""
        return self._fingerprint

    @property
    def counters(self) -> EncoderCounters:
        """Totals and depths for metrics."""
        workers = [*self._abandoned, *([self._worker] if self._worker else [])]
        counts = [worker.counts for worker in workers] or [WorkCounts()]
        queries, passages = self._worker.waiting if self._worker else (0, 0)
        return EncoderCounters(
            cache_hits=self._hits,
            cache_misses=self._misses,
            cached=len(self._cache),
            query_batches=sum(each.query_batches for each in counts),
            queries=sum(each.queries for each in counts),
            largest_query_batch=max(each.largest_query_batch for each in counts),
            passage_batches=sum(each.passage_batches for each in counts),
            windows=sum(each.windows for each in counts),
            failures=sum(each.failures for each in counts),
            overloads=self._overloads,
            timeouts=self._timeouts,
            waiting_queries=queries,
            waiting_passages=passages,
            abandoned_workers=self._still_running(),
        )

    @property
    def reading(self) -> EncoderReading:
        """The few figures that a dashboard needs; cheap, and never raises."""
        waiting, _ = self._worker.waiting if self._worker else (0, 0)
        return EncoderReading(self._hits, self._misses, waiting)

    async def wait_ready(self, deadline_s: float) -> Fingerprint:
        """The fingerprint, once the model is loaded; failed loads are waited through.

        Raises:
            EncodingTimedOut: it is not loaded within the deadline.
            EncoderClosed: the service was closed.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + deadline_s
        while (state := self.state).fingerprint is None or state.phase is not Phase.READY:
            if state.phase is Phase.CLOSED:
                raise EncoderClosed("the encoder was closed")
            if loop.time() >= until:
                because = f": {state.reason}" if state.reason else ""
                raise EncodingTimedOut(f"the encoder is still {state.phase.value}{because}")
            await asyncio.sleep(_READY_POLL_S)
        return state.fingerprint

    async def encode_query(
        self, text: str, *, partition: str = "", deadline_s: float | None = None
    ) -> Vectors:
        """The query's unit vector, `(dimension,)`, read-only; from the cache when it was asked before.

        Whoever serves several parties names each in `partition`: then how long an answer takes tells none
        of them what another has asked.

        Raises:
            InvalidText: nothing but white space, or a lone surrogate.
            EncoderNotReady, EncoderClosed: no model can encode it now.
            Overloaded: the queue is full.
            EncodingTimedOut: not within the deadline, by default that of the limits.
            EncodingFailed: the model failed.
        """
        if not text.strip():
            raise InvalidText("a query of nothing but white space has no vector")
        require_encodable(text)
        worker = self._working()
        if self._fingerprint is not None:
            cached = self._cache.get(CacheKey(self._fingerprint.id, Role.QUERY, partition, text))
            if cached is not None:
                self._hits += 1
                return cached
        self._misses += 1
        limit = self._limits.query_deadline_s if deadline_s is None else deadline_s
        vector = await self._answer(worker, partial(worker.submit_query, text, partition), limit)
        if self._fingerprint is not None:
            self._cache.put(CacheKey(self._fingerprint.id, Role.QUERY, partition, text), vector)
        return vector

    async def encode_passages(
        self, texts: Sequence[str], *, deadline_s: float | None = None
    ) -> list[Vectors]:
        """For each text its windows' vectors, `(windows, dimension)`; queries go first between batches.

        Without a deadline it takes as long as it takes, and still ends when the worker is stuck. Raises as
        `encode_query` does.
        """
        for text in texts:
            require_encodable(text)
        worker = self._working()
        return await self._answer(worker, partial(worker.submit_passages, texts), deadline_s)

    async def close(self) -> None:
        """Refuse what waits, let the batch in hand end, and give it up if it does not. May be called twice."""
        self._closed = True
        workers = [*self._abandoned, *([self._worker] if self._worker else [])]
        for worker in workers:
            worker.close()
        ends = [asyncio.wrap_future(worker.ended) for worker in workers]
        if ends:
            _, hanging = await asyncio.wait(ends, timeout=self._limits.close_within_s)
            for end in hanging:
                end.cancel()  # or it would be told on a loop that is closed by then

    async def _answer(
        self, worker: EncoderWorker, submit: Callable[[], Future[Answer]], deadline_s: float | None
    ) -> Answer:
        """What comes of the work, or an error when the deadline passes or the worker hangs.

        Giving up cancels the work if it has not begun, and is no other caller's concern.
        """
        try:
            work = submit()
        except Overloaded:
            self._overloads += 1
            raise
        pending = asyncio.wrap_future(work)
        loop = asyncio.get_running_loop()
        until = None if deadline_s is None else loop.time() + deadline_s
        look_again_s = self._limits.stuck_after_s / 2
        try:
            while not pending.done():
                left = look_again_s if until is None else min(look_again_s, until - loop.time())
                if left <= 0 or worker.is_stuck:
                    self._timeouts += 1
                    raise EncodingTimedOut("the encoder did not answer within the deadline")
                await asyncio.wait({pending}, timeout=left)
            return pending.result()
        finally:
            work.cancel()  # at once; by way of `pending` it would reach the queue a turn of the loop later
            pending.cancel()

    def _working(self) -> EncoderWorker:
        """The worker, or its successor when it has been stuck for too long."""
        if self._closed:
            raise EncoderClosed("the encoder was closed")
        worker = self._worker
        if worker is None:
            raise EncoderNotReady("the encoder was not started")
        if worker.busy_for_s > self._limits.replace_after_s and self._still_running() < _MOST_ABANDONED:
            _log.error("encoder stuck for %.0f s: abandoned, the model is loaded again", worker.busy_for_s)
            worker.close()
            self._abandoned.append(worker)
            self._worker = worker = self._new_worker()
        return worker

    def _new_worker(self) -> EncoderWorker:
        worker = EncoderWorker(self._load_same, self._limits)
        worker.start()
        return worker

    def _load_same(self) -> Encoder:
        """Load, in the worker's thread, and refuse another model than the one this service began with.

        Whoever holds vectors of this service may then trust that all of them compare.
        """
        encoder = self._load()
        if self._fingerprint is not None and encoder.fingerprint.id != self._fingerprint.id:
            raise UnsuitableModel("the model files are no longer those this service began with; restart it")
        self._fingerprint = encoder.fingerprint
        return encoder

    def _still_running(self) -> int:
        return sum(not worker.ended.done() for worker in self._abandoned)
