"""What waits for the encoder: bounded, queries before passages, taken in small pieces."""

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from embeddings.encoder_settings import ServiceLimits
from embeddings.errors import EncoderNotReady, Overloaded
from embeddings.vectors import Vectors

# So many query batches in a row, then one passage step: under a flood of queries indexing still moves.
_QUERIES_BEFORE_PASSAGES = 8
# A batch is padded to its longest text: only queries whose lengths are within a factor of two share one.
_SHORT_TEXT = 127
_LONGEST_BAND = 12


@dataclass(frozen=True, slots=True, eq=False)
class QueryJob:
    """One query text and where its vector goes, `(dimension,)`. Only jobs of one partition share a vector."""

    text: str
    partition: str = ""
    future: Future[Vectors] = field(default_factory=Future)


@dataclass(slots=True, eq=False)
class PassageJob:
    """Passages of one caller, encoded step by step; `steps` is set when the first step is taken.

    The future stays pending until the last step, so that a caller who gives up ends the job at once.
    """

    texts: Sequence[str]
    future: Future[list[Vectors]] = field(default_factory=Future)
    steps: Generator[int, None, list[Vectors]] | None = None


class WorkQueue:
    """Not locked: the worker holds its lock around every call."""

    def __init__(self, limits: ServiceLimits) -> None:
        self._limits = limits
        self._queries: deque[QueryJob] = deque()
        self._passages: deque[PassageJob] = deque()
        self._query_streak = 0

    @property
    def waiting_queries(self) -> int:
        """Queries not yet taken, those whose caller gave up included."""
        return len(self._queries)

    @property
    def waiting_passages(self) -> int:
        """Passage texts of the jobs not yet finished."""
        return sum(len(job.texts) for job in self._passages)

    def add_query(self, job: QueryJob) -> None:
        """Put a query at the end.

        Raises:
            Overloaded: the bound is reached, even without those whose caller gave up.
        """
        if len(self._queries) >= self._limits.waiting_queries:
            self._queries = deque(waiting for waiting in self._queries if not waiting.future.cancelled())
        if len(self._queries) >= self._limits.waiting_queries:
            raise Overloaded(f"{len(self._queries)} queries are waiting for the encoder")
        self._queries.append(job)

    def add_passages(self, job: PassageJob) -> None:
        """Put a passage job at the end; one larger than the bound is accepted when nothing else waits.

        Raises:
            Overloaded: the bound is reached.
        """
        self._drop_cancelled_passages()
        waiting = self.waiting_passages
        if waiting and waiting + len(job.texts) > self._limits.waiting_passages:
            raise Overloaded(f"{waiting} passages are waiting for the encoder")
        self._passages.append(job)

    def take(self) -> list[QueryJob] | PassageJob | None:
        """The next piece of work, or None. A passage job stays first in line until `finish`."""
        self._drop_cancelled_passages()
        owed = self._query_streak >= _QUERIES_BEFORE_PASSAGES and self._passages
        batch = [] if owed else self._take_queries()
        if batch:
            self._query_streak += 1
            return batch
        self._query_streak = 0
        return self._passages[0] if self._passages else None

    def finish(self, job: PassageJob) -> None:
        """Take a passage job out of the line, if it is still in it."""
        if job in self._passages:
            self._passages.remove(job)

    def refuse_all(self, error: EncoderNotReady) -> None:
        """Answer everything that waits with an error."""
        for future in self._futures():
            if not future.done() and future.set_running_or_notify_cancel():
                future.set_exception(error)
        self._queries.clear()
        self._passages.clear()

    def _take_queries(self) -> list[QueryJob]:
        """The oldest query and, in order, those waiting that are of like length; their futures now run."""
        batch: list[QueryJob] = []
        left: deque[QueryJob] = deque()
        for job in self._queries:
            full = len(batch) >= self._limits.query_batch
            if batch and (full or _length_band(job.text) != _length_band(batch[0].text)):
                left.append(job)
            elif job.future.set_running_or_notify_cancel():
                batch.append(job)
        self._queries = left
        return batch

    def _drop_cancelled_passages(self) -> None:
        if any(job.future.cancelled() for job in self._passages):
            self._passages = deque(job for job in self._passages if not job.future.cancelled())

    def _futures(self) -> Iterator[Future[Vectors] | Future[list[Vectors]]]:
        yield from (job.future for job in self._queries)
        yield from (job.future for job in self._passages)


def _length_band(text: str) -> int:
    return min(max(len(text), _SHORT_TEXT).bit_length(), _LONGEST_BAND)
