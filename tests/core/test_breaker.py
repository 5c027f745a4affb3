"""The breaker as a pure state machine."""

from hypothesis import given
from hypothesis import strategies as st

from service.core.breaker import (
    FAILURES,
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    Breaker,
    after_failed_probe,
    after_failure,
    after_success,
    after_timeout,
)


def test_it_opens_after_failures_in_a_row() -> None:
    """C27: as many failures in a row open it, a success between them does not count them."""
    breaker = Breaker()
    for _ in range(FAILURES - 1):
        breaker = after_failure(breaker, 10.0)
        assert not breaker.is_open
    assert not after_failure(after_success(breaker), 10.0).is_open
    opened = after_failure(breaker, 10.0)
    assert opened.is_open
    assert opened.retry_at == 10.0 + FIRST_PAUSE_S


def test_a_timeout_opens_it_at_once() -> None:
    """C27: nobody else is to pay a whole deadline."""
    assert after_timeout(Breaker(), 5.0).is_open


def test_calls_on_their_way_change_nothing() -> None:
    """C27: a hundred calls that fail in one outage do not lengthen the pause."""
    opened = after_timeout(Breaker(), 5.0)
    for moment in range(100):
        assert after_failure(opened, 5.0 + moment) == opened
        assert after_timeout(opened, 5.0 + moment) == opened


@given(st.integers(min_value=0, max_value=40))
def test_probes_come_more_rarely_and_never_end(probes: int) -> None:
    """C27: each failed probe doubles the pause up to its bound; one that succeeds closes the circuit."""
    breaker, now = after_timeout(Breaker(), 0.0), 0.0
    for _ in range(probes):
        now = breaker.retry_at
        longer = after_failed_probe(breaker, now)
        assert breaker.pause <= longer.pause <= LONGEST_PAUSE_S
        assert longer.retry_at == now + longer.pause
        breaker = longer
    assert breaker.is_open
    assert after_success(breaker) == Breaker()
