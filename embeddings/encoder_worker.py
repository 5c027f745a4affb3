"""One thread that loads an encoder, and then encodes what waits: queries first, in batches as they come."""

import atexit
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace

from embeddings.encoder import Encoder, passage_steps
from embeddings.encoder_settings import ServiceLimits
from embeddings.encoder_state import EncoderState, Phase, WorkCounts
from embeddings.errors import EmbeddingError, EncoderClosed, EncoderNotReady, EncodingFailed, InvalidText
from embeddings.vectors import Vectors, require_unit_rows
from embeddings.work_queue import PassageJob, QueryJob, WorkQueue

_log = logging.getLogger(__name__)
_LONGEST_BACKOFF_EXPONENT = 16
_LAST_WAIT_S = 15.0


class EncoderWorker:
    """Owns a daemon thread: work that hangs in native code cannot keep the process from ending.

    A daemon thread that comes back from native code while the interpreter is being taken down aborts the
    process; so a process that ends first waits for the load or the batch in hand, up to 15 seconds.
    """

    def __init__(self, load: Callable[[], Encoder], limits: ServiceLimits) -> None:
        self.counts = WorkCounts()
        self.ended: Future[None] = Future()
        self._load = load
        self._limits = limits
        self._changed = threading.Condition()
        self._queue = WorkQueue(limits)
        self._state = EncoderState(Phase.LOADING)
        self._retry_at: float | None = None
        self._busy_since: float | None = None
        self._closing = False
        self._said = ""  # why no model was loaded, as it was logged last
        self._thread = threading.Thread(target=self._run, name="encoder", daemon=True)

    def start(self) -> None:
        """Begin to load; returns at once."""
        atexit.register(self._end_with_process)
        self._thread.start()

    def close(self) -> None:
        """Refuse what waits and end the thread after the batch it is in; returns at once."""
        with self._changed:
            self._closing = True
            self._queue.refuse_all(EncoderClosed("the encoder was closed"))
            self._changed.notify_all()

    def submit_query(self, text: str, partition: str = "") -> Future[Vectors]:
        """Queue a query for its vector, `(dimension,)`; one text waiting twice in a partition is encoded once.

        Raises:
            EncoderNotReady: no model is loaded, or the worker is stuck or closed.
            Overloaded: the queue is full.
        """
        job = QueryJob(text, partition)
        with self._changed:
            self._require_ready()
            self._queue.add_query(job)
            self._changed.notify()
        return job.future

    def submit_passages(self, texts: Sequence[str]) -> Future[list[Vectors]]:
        """Queue passages for their windows' vectors; raises as `submit_query` does."""
        job = PassageJob(tuple(texts))
        with self._changed:
            self._require_ready()
            self._queue.add_passages(job)
            self._changed.notify()
        return job.future

    @property
    def waiting(self) -> tuple[int, int]:
        """Queries and passage texts in the queue."""
        with self._changed:
            return self._queue.waiting_queries, self._queue.waiting_passages

    @property
    def busy_for_s(self) -> float:
        """How long the batch in hand has been running; 0 between batches."""
        since = self._busy_since
        return 0.0 if since is None else time.monotonic() - since

    @property
    def is_stuck(self) -> bool:
        """Whether the batch in hand runs for longer than any healthy one would."""
        return self.busy_for_s > self._limits.stuck_after_s

    @property
    def state(self) -> EncoderState:
        """What the thread is at."""
        state = self._state
        if self._closing:
            return replace(state, phase=Phase.CLOSED)
        if self.is_stuck:
            reason = f"one batch has been running for {self.busy_for_s:.0f} s"
            return replace(state, phase=Phase.STUCK, code=EncoderNotReady.code, reason=reason)
        retry_at = self._retry_at
        if state.phase is Phase.FAILED and retry_at is not None:
            return replace(state, retry_in_s=max(0.0, retry_at - time.monotonic()))
        return state

    def _end_with_process(self) -> None:
        self.close()
        self._thread.join(_LAST_WAIT_S)

    def _require_ready(self) -> None:
        state = self.state
        if state.phase is Phase.CLOSED:
            raise EncoderClosed("the encoder was closed")
        if state.phase is not Phase.READY:
            because = f": {state.reason}" if state.reason else ""
            raise EncoderNotReady(f"the encoder is {state.phase.value}{because}")

    def _run(self) -> None:
        self.ended.set_running_or_notify_cancel()  # from here on a waiter that gives up cannot cancel it
        try:
            while not self._closing:
                encoder = self._load_once()
                if encoder is None:
                    self._wait_to_retry()
                else:
                    self._serve(encoder)
        finally:
            self._busy_since = None
            self.close()
            atexit.unregister(self._end_with_process)
            self.ended.set_result(None)

    def _load_once(self) -> Encoder | None:
        """The encoder; or None, and the state says why."""
        loads = self._state.loads + 1
        self._state = EncoderState(Phase.LOADING, loads=loads)
        started = time.monotonic()
        try:
            encoder = self._load()
            fingerprint = encoder.fingerprint
        except Exception as error:  # noqa: BLE001 - the seam where vectors may be absent; the state keeps why
            ours = _as_ours(error, "the model could not be loaded")
            # Imports fail in a process that ends; what was said of the try before need not be said again.
            is_news = not self._closing and ours.detail != self._said
            level = logging.WARNING if is_news else logging.DEBUG
            self._said = ours.detail
            stack = None if isinstance(error, EmbeddingError) and is_news else error
            _log.log(level, "encoder not loaded, will be tried again: %s", ours.detail, exc_info=stack)
            self._retry_at = time.monotonic() + self._backoff_s(loads)
            self._state = EncoderState(Phase.FAILED, ours.code, ours.detail, loads)
            return None
        self._said = ""
        _log.info("encoder ready in %.1f s: %s", time.monotonic() - started, fingerprint.id)
        self._state = EncoderState(Phase.READY, loads=loads, fingerprint=fingerprint)
        return encoder

    def _backoff_s(self, failed: int) -> float:
        doubled = self._limits.retry_first_s * 2.0 ** min(failed - 1, _LONGEST_BACKOFF_EXPONENT)
        return min(doubled, self._limits.retry_longest_s)

    def _wait_to_retry(self) -> None:
        with self._changed:
            until = self._retry_at or 0.0
            while not self._closing and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)

    def _serve(self, encoder: Encoder) -> None:
        while True:
            with self._changed:
                self._busy_since = None
                work: list[QueryJob] | PassageJob | None = None
                while not self._closing and (work := self._queue.take()) is None:
                    self._changed.wait()
                if work is None:
                    return
                self._busy_since = time.monotonic()
            if isinstance(work, PassageJob):
                self._step_passages(encoder, work)
            else:
                self._answer_queries(encoder, work)

    def _answer_queries(self, encoder: Encoder, jobs: list[QueryJob]) -> None:
        asked = list(dict.fromkeys((job.partition, job.text) for job in jobs))
        self.counts.query_batches += 1
        self.counts.queries += len(jobs)
        self.counts.largest_query_batch = max(self.counts.largest_query_batch, len(jobs))
        answers = dict(zip(asked, self._vectors_of(encoder, [text for _, text in asked]), strict=True))
        for job in jobs:
            answer = answers[job.partition, job.text]
            if isinstance(answer, EmbeddingError):
                job.future.set_exception(answer)
            else:
                job.future.set_result(answer)

    def _vectors_of(self, encoder: Encoder, texts: list[str]) -> list[Vectors | EmbeddingError]:
        """Each text's answer, in order; after a failed batch each is tried alone: one cannot spoil the rest."""
        try:
            rows = encoder.encode_queries(texts)
            require_unit_rows(rows, count=len(texts), dimension=encoder.fingerprint.dimension)
        except Exception as error:  # noqa: BLE001 - whatever the model raises belongs to the callers
            if len(texts) > 1:
                return [answer for text in texts for answer in self._vectors_of(encoder, [text])]
            self.counts.failures += not isinstance(error, InvalidText)
            return [_as_ours(error, "the model failed while encoding")]
        return [row.copy() for row in rows]

    def _step_passages(self, encoder: Encoder, job: PassageJob) -> None:
        if job.steps is None:
            job.steps = passage_steps(encoder, job.texts, self._limits.passage_tokens)
        outcome: list[Vectors] | EmbeddingError
        try:
            windows = next(job.steps)
        except StopIteration as done:
            outcome = done.value
        except Exception as error:  # noqa: BLE001 - whatever the model raises belongs to the caller
            self.counts.failures += 1
            outcome = _as_ours(error, "the model failed while encoding")
        else:
            self.counts.passage_batches += 1 if windows else 0
            self.counts.windows += windows
            return
        with self._changed:
            self._queue.finish(job)
        if not job.future.set_running_or_notify_cancel():
            return
        if isinstance(outcome, EmbeddingError):
            job.future.set_exception(outcome)
        else:
            job.future.set_result(outcome)


def _as_ours(error: Exception, what: str) -> EmbeddingError:
    if isinstance(error, EmbeddingError):
        return error
    ours = EncodingFailed(f"{what} ({type(error).__name__})")
    ours.__cause__ = error
    return ours
