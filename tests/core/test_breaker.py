"""The breaker as a pure state machine."""

from hypothesis import given
from hypothesis import strategies as st

from service.core.breaker import (
    FAILURES,
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    PROVEN,
    Breaker,
    after_failed_probe,
    after_failure,
    after_good_probe,
    after_success,
    after_timeout,
)


def test_it_opens_after_failures_in_a_row() -> None:
    """C27: as many failures in a row open it, a success between them does not count them."""
    breaker = Breaker()
    for _ in range(FAILURES - 1):
        breaker = after_failure(breaker, 10.0)
        assert not breaker.is_open
    assert not after_failure(after_success(breaker, 10.0), 10.0).is_open
    opened = after_failure(breaker, 10.0)
    assert opened.is_open
    assert opened.retry_at == 10.0 + FIRST_PAUSE_S


def test_a_timeout_opens_it_at_once() -> None:
    """C27: nobody else is to pay a whole deadline."""
    assert after_timeout(Breaker(), 5.0).is_open


def test_calls_on_their_way_change_nothing() -> None:
    """C27: a hundred calls that end during an outage, well or not, change neither its pause nor its end."""
    opened = after_timeout(Breaker(), 5.0)
    for moment in range(100):
        assert after_failure(opened, 5.0 + moment) == opened
        assert after_timeout(opened, 5.0 + moment) == opened
        assert after_success(opened, 5.0 + moment) == opened


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
    assert not after_good_probe(breaker, now).is_open


@given(st.integers(min_value=1, max_value=40), st.integers(min_value=0, max_value=PROVEN - 1))
def test_relapses_come_more_rarely(relapses: int, good: int) -> None:
    """C27: a part that passes its probes and fails its callers costs one of them a pause, and pauses double."""
    breaker, now, pauses = after_timeout(Breaker(), 0.0), 0.0, []
    for relapse in range(relapses):
        now = breaker.retry_at
        pauses.append(breaker.pause)
        breaker = after_good_probe(breaker, now)
        for _ in range(good):
            breaker = after_success(breaker, now)
        count = after_timeout if relapse % 2 else after_failure
        breaker = count(breaker, now)
        assert breaker.is_open
    assert pauses == [min(FIRST_PAUSE_S * 2**n, LONGEST_PAUSE_S) for n in range(relapses)]


def test_trust_comes_back_with_calls_and_time() -> None:
    """C27: many good calls in an instant are no proof, nor is a long quiet; after both an outage is a new one."""
    breaker = after_failed_probe(after_failed_probe(after_timeout(Breaker(), 0.0), 1.0), 2.0)
    trial = after_good_probe(breaker, 10.0)
    hasty = trial
    for _ in range(1_000):
        hasty = after_success(hasty, 10.0)
    assert after_timeout(hasty, 10.0).pause == 2 * breaker.pause
    rare = after_success(trial, 10.0 + breaker.pause)
    assert after_timeout(rare, 1e6).pause == 2 * breaker.pause
    assert after_success(hasty, 10.0 + breaker.pause) == Breaker()
    for _ in range(PROVEN - 1):
        rare = after_success(rare, 11.0)
    assert rare == Breaker()
