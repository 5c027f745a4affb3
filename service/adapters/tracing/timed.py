"""Latency histograms of the steps, kept in memory whether or not anybody traces. Implements Tracer."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Lock
from time import perf_counter
from types import TracebackType
from typing import Final

from service.ports.tracing import RequestSpan, Span, Step, Tracer

# Seconds. Steps are shorter than requests: the finest one tells 0.25 ms from 0.5 ms.
BOUNDS: Final = (
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    10.0,
    30.0,
)


@dataclass(frozen=True, slots=True)
class StepReading:
    """One step's histogram: `counts` by bound and, last, above them all; `seconds` is their sum."""

    step: Step
    counts: tuple[int, ...]
    seconds: float


class StepTimes:
    """The histograms of one process. Documents are extracted on threads, so it is locked."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts = {step: [0] * (len(BOUNDS) + 1) for step in Step}
        self._seconds = dict.fromkeys(Step, 0.0)

    def observe(self, step: Step, seconds: float) -> None:
        """Count a step that took so long, whether or not it succeeded."""
        place = bisect_left(BOUNDS, seconds)
        with self._lock:
            self._counts[step][place] += 1
            self._seconds[step] += seconds

    def readings(self) -> Sequence[StepReading]:
        """Every step, also those that were never taken."""
        with self._lock:
            return [StepReading(step, tuple(self._counts[step]), self._seconds[step]) for step in Step]


class TimedTracer:
    """Times every span that it has another tracer open."""

    def __init__(self, times: StepTimes, inner: Tracer) -> None:
        self.times = times
        self._inner = inner

    def span(self, step: Step) -> AbstractContextManager[Span]:
        """The other tracer's span, timed."""
        return _Timed(self.times, step, self._inner.span(step))

    def request(self, name: str, carrier: Mapping[str, str]) -> AbstractContextManager[RequestSpan]:
        """The other tracer's; requests are timed by the surface."""
        return self._inner.request(name, carrier)


class _Timed:
    """A span with a clock at its two ends."""

    __slots__ = ("_began", "_inner", "_step", "_times")

    def __init__(self, times: StepTimes, step: Step, inner: AbstractContextManager[Span]) -> None:
        self._times = times
        self._step = step
        self._inner = inner
        self._began = 0.0

    def __enter__(self) -> Span:
        span = self._inner.__enter__()
        self._began = perf_counter()
        return span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._times.observe(self._step, perf_counter() - self._began)
        self._inner.__exit__(kind, error, trace)
