"""What Retry-After asks for, and how much of it is granted."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.adapters.link_prober import RetryRule, repeat_after, wait_asked
from service.adapters.link_transport import Answer
from service.ports.links import Reason

NOW = datetime(2015, 10, 21, 7, 28, 0, tzinfo=UTC)
RULE = RetryRule(retries=2, backoff=0.5, longest_wait=15.0)


@pytest.mark.parametrize(
    ("status", "value", "seconds"),
    [
        (429, "12", 12.0),
        (503, " 0 ", 0.0),
        (429, "Wed, 21 Oct 2015 07:28:30 GMT", 30.0),
        (429, "Wed, 21 Oct 2015 07:28:30 -0000", 30.0),
        (429, "Wed, 21 Oct 2015 07:00:00 GMT", 0.0),
        (429, "soon", None),
        (429, "-5", None),
        (429, "", None),
        (429, None, None),
        (500, "12", None),
    ],
)
def test_retry_after_in_both_its_forms(status: int, value: str | None, seconds: float | None) -> None:
    """Retry-After counts on 429 and 503, as seconds or as a date; nonsense and the past ask for nothing."""
    assert wait_asked(Answer(status, retry_after=value), NOW) == seconds


@given(st.text(max_size=40))
def test_any_retry_after_is_read(value: str) -> None:
    """No header value is an error, and none asks for less than nothing."""
    asked = wait_asked(Answer(429, retry_after=value), NOW)
    assert asked is None or asked >= 0.0


def test_waiting_doubles_and_ends() -> None:
    """Without Retry-After the waits are 0.5 and 1 second, and then it was asked often enough."""
    assert [repeat_after(Reason.TIMEOUT, n, RULE) for n in range(3)] == [0.5, 1.0, None]


def test_a_wait_beyond_the_bound_is_not_granted() -> None:
    """Fifteen seconds are waited for, sixteen are not."""
    assert repeat_after(Answer(503, retry_after="15"), 0, RULE) == 15.0
    assert repeat_after(Answer(503, retry_after="16"), 0, RULE) is None
