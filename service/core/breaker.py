"""A circuit breaker as a pure state machine: after a few failures a dead store costs nothing but a look."""

from dataclasses import dataclass, replace

FAILURES = 3  # in a row, before the circuit opens
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0


@dataclass(frozen=True, slots=True)
class Breaker:
    """Closed while `failures` < FAILURES. Open until `retry_at`; then one caller probes."""

    failures: int = 0
    pause: float = FIRST_PAUSE_S
    retry_at: float = 0.0
    probing: bool = False

    @property
    def is_open(self) -> bool:
        """Whether calls are refused, but for the probe."""
        return self.failures >= FAILURES


def may_call(breaker: Breaker, now: float) -> tuple[bool, Breaker]:
    """Whether a call may go through, and the breaker afterwards. While open, one call a pause does."""
    if not breaker.is_open:
        return True, breaker
    if breaker.probing or now < breaker.retry_at:
        return False, breaker
    return True, replace(breaker, probing=True)


def after_success(breaker: Breaker) -> Breaker:
    """Closed again."""
    return Breaker() if breaker.failures or breaker.probing else breaker


def after_failure(breaker: Breaker, now: float) -> Breaker:
    """One failure more; an open circuit waits twice as long for its next probe."""
    failures = breaker.failures + 1
    if failures < FAILURES:
        return replace(breaker, failures=failures, probing=False)
    pause = breaker.pause if failures == FAILURES else min(breaker.pause * 2.0, LONGEST_PAUSE_S)
    return Breaker(failures, pause, now + pause, probing=False)


def after_cancel(breaker: Breaker) -> Breaker:
    """A call ended without saying anything of the store: the next one may probe."""
    return replace(breaker, probing=False)
