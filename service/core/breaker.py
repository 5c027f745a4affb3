"""A circuit breaker as a pure state machine: a dead store costs one deadline, or a few quick failures."""

from dataclasses import dataclass

FAILURES = 3  # in a row, before the circuit opens; a call that ran out of time opens it at once
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 15.0


@dataclass(frozen=True, slots=True)
class Breaker:
    """Closed while `failures` < FAILURES; then open, and to be probed at `retry_at` (monotonic seconds)."""

    failures: int = 0
    pause: float = FIRST_PAUSE_S
    retry_at: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether calls are refused."""
        return self.failures >= FAILURES


def after_success(breaker: Breaker) -> Breaker:
    """Closed again."""
    return Breaker() if breaker.failures else breaker


def after_failure(breaker: Breaker, now: float) -> Breaker:
    """One failure more. An open circuit does not change: calls that were on their way say nothing new."""
    if breaker.is_open:
        return breaker
    failures = breaker.failures + 1
    return Breaker(failures, FIRST_PAUSE_S, now + FIRST_PAUSE_S if failures >= FAILURES else 0.0)


def after_timeout(breaker: Breaker, now: float) -> Breaker:
    """A call cost its caller the whole deadline: no other shall."""
    return breaker if breaker.is_open else Breaker(FAILURES, FIRST_PAUSE_S, now + FIRST_PAUSE_S)


def after_failed_probe(breaker: Breaker, now: float) -> Breaker:
    """The next probe comes after twice the pause."""
    pause = min(breaker.pause * 2.0, LONGEST_PAUSE_S)
    return Breaker(max(breaker.failures, FAILURES), pause, now + pause)
