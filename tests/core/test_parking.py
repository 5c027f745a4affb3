"""How long parked passages wait."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from service.core.parking import FIRST_WAIT, LONGEST_WAIT, retry_after


def test_each_attempt_waits_twice_as_long() -> None:
    """C27: one, two, four, eight minutes, and so on up to six hours."""
    waits = [retry_after(attempts) for attempts in range(1, 12)]
    assert waits[:4] == [timedelta(minutes=minutes) for minutes in (1, 2, 4, 8)]
    assert waits[-1] == timedelta(hours=6)


@given(st.integers(1, 10**9))
def test_waits_are_bounded_and_never_shrink(attempts: int) -> None:
    """C27: however often a passage was tried, it is tried again within six hours."""
    assert FIRST_WAIT <= retry_after(attempts) <= retry_after(attempts + 1) <= LONGEST_WAIT
