"""The rule from what was found to what is stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.ports.links import (
    VERDICTS,
    Liveness,
    Reason,
    Verdict,
    deserves_second_look,
    judge_status,
    stored_value,
)


def test_every_reason_has_one_verdict() -> None:
    """C1: the table from reasons to verdicts leaves none out."""
    assert set(VERDICTS) == set(Reason)


@pytest.mark.parametrize("reason", list(Reason))
def test_only_evidence_is_stored(reason: Reason) -> None:
    """C1: true is seen live, false is seen dead, and everything else is null, so it is not rendered."""
    expected = {Verdict.ALIVE: True, Verdict.DEAD: False}.get(VERDICTS[reason])
    assert stored_value(Liveness(reason)) is expected


@given(st.integers(min_value=0, max_value=999))
def test_only_success_is_alive_and_only_absence_is_dead(status: int) -> None:
    """C28: of all statuses only 2xx is alive, and only 404 and 410 are dead."""
    found = judge_status(status)
    assert found.status == status
    assert (found.verdict is Verdict.ALIVE) == (200 <= status <= 299)
    assert (found.verdict is Verdict.DEAD) == (status in {404, 410})


@pytest.mark.parametrize("status", [404, 410, 401, 403, 200, 301])
def test_settled_answers_get_no_second_look(status: int) -> None:
    """Waiting does not change what a server plainly said."""
    assert not deserves_second_look(judge_status(status))


@pytest.mark.parametrize("reason", [Reason.TIMEOUT, Reason.CONNECTION, Reason.HOST_DOWN, Reason.NO_SUCH_HOST])
def test_passing_trouble_gets_a_second_look(reason: Reason) -> None:
    """C28: one slow minute, of the page or of the name service, is not the last word."""
    assert deserves_second_look(Liveness(reason))
