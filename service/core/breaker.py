"""A circuit breaker as a pure state machine: a dead store costs one deadline, or a few quick failures.

A good probe closes the circuit on trial: who fails again at once finds it open for twice as long as before. It is
trusted again, and its next outage a new one, after PROVEN good calls and as much time as it was last open for.
"""

from dataclasses import dataclass, replace

FAILURES = 3  # in a row, before the circuit opens; a call that ran out of time opens it at once
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 15.0
PROVEN = 8


@dataclass(frozen=True, slots=True)
class Breaker:
    """Closed while `failures` < FAILURES; then open, and to be probed at `retry_at` (monotonic seconds).

    On trial while `trial` good calls are missing, and no shorter than until `trusted_at`.
    """

    failures: int = 0
    pause: float = FIRST_PAUSE_S
    retry_at: float = 0.0
    trial: int = 0
    trusted_at: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether calls are refused."""
        return self.failures >= FAILURES

    @property
    def is_on_trial(self) -> bool:
        """Whether a failure would be a relapse."""
        return self.trusted_at > 0.0


def after_success(breaker: Breaker, now: float) -> Breaker:
    """Failures in a row are over; a trial nears its end. An open circuit does not change: its probe closes it."""
    if breaker.is_open:
        return breaker
    if not breaker.is_on_trial:
        return Breaker() if breaker.failures else breaker
    missing = max(0, breaker.trial - 1)
    if missing == 0 and now >= breaker.trusted_at:
        return Breaker()
    return replace(breaker, trial=missing)


def after_failure(breaker: Breaker, now: float) -> Breaker:
    """One failure more. An open circuit does not change: calls that were on their way say nothing new."""
    if breaker.is_open:
        return breaker
    failures = breaker.failures + 1
    if breaker.is_on_trial or failures >= FAILURES:
        return _opened(breaker, now)
    return replace(breaker, failures=failures)


def after_timeout(breaker: Breaker, now: float) -> Breaker:
    """A call cost its caller the whole deadline: no other shall."""
    return breaker if breaker.is_open else _opened(breaker, now)


def after_failed_probe(breaker: Breaker, now: float) -> Breaker:
    """The next probe comes after twice the pause."""
    pause = _longer(breaker.pause)
    return Breaker(max(breaker.failures, FAILURES), pause, now + pause)


def after_good_probe(breaker: Breaker, now: float) -> Breaker:
    """Closed on trial. The pause is remembered: one good answer does not end an outage."""
    return Breaker(0, breaker.pause, 0.0, PROVEN, now + breaker.pause)


def _opened(breaker: Breaker, now: float) -> Breaker:
    pause = _longer(breaker.pause) if breaker.is_on_trial else FIRST_PAUSE_S
    return Breaker(FAILURES, pause, now + pause)


def _longer(pause: float) -> float:
    return min(pause * 2.0, LONGEST_PAUSE_S)
