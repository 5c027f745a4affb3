"""The flag's states, and who is inside a percentage."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.rollout import (
    BUCKETS,
    FlagKind,
    FlagState,
    RolloutDecision,
    bucket,
    decide_rollout,
    parse_flag,
)
from service.errors import InvalidInput
from service.model import Workspace

names = st.text(max_size=30)
hundredths = st.integers(min_value=0, max_value=10_000)


def percent(hundredth: int) -> FlagState:
    """A percentage in steps of a hundredth of a percent."""
    return FlagState(FlagKind.PERCENT, hundredth / 100)


@pytest.mark.parametrize("text", ["off", "shadow", "on", "0%", "0.01%", "12.5%", "100%"])
def test_states_are_read_as_they_are_shown(text: str) -> None:
    """E12: off, shadow, a percentage and on are the flag's states, and are shown as they are set."""
    assert str(parse_flag(text)) == text


@pytest.mark.parametrize(
    "text", ["", "true", "yes", "101%", "-1%", "5", "%", "1.234%", "on off", "50 percent"]
)
def test_everything_else_is_no_state(text: str) -> None:
    """E12: what is no state is refused, not guessed."""
    with pytest.raises(InvalidInput):
        parse_flag(text)


@given(names, names, hundredths)
def test_a_percentage_is_sticky(workspace: str, caller: str, share: int) -> None:
    """E12: the same workspace and caller always get the same decision."""
    first = decide_rollout(percent(share), Workspace(workspace), caller)
    assert all(decide_rollout(percent(share), Workspace(workspace), caller) is first for _ in range(3))


@given(names, names, hundredths, hundredths)
def test_a_larger_percentage_keeps_whom_it_had(workspace: str, caller: str, one: int, other: int) -> None:
    """E12: nobody who is inside a percentage falls out of a larger one."""
    small, large = sorted((one, other))
    if decide_rollout(percent(small), Workspace(workspace), caller) is RolloutDecision.RUN:
        assert decide_rollout(percent(large), Workspace(workspace), caller) is RolloutDecision.RUN


@given(names, names)
def test_the_ends_of_the_scale(workspace: str, caller: str) -> None:
    """E12: 0 % is nobody and 100 % is everybody."""
    scope = Workspace(workspace)
    assert decide_rollout(percent(0), scope, caller) is RolloutDecision.NOT_IN_ROLLOUT
    assert decide_rollout(percent(10_000), scope, caller) is RolloutDecision.RUN


def test_a_percentage_is_that_share_of_callers() -> None:
    """E12: of 20,000 callers, 25 % are inside 25 %, within four standard deviations."""
    inside = Counter(
        decide_rollout(percent(2_500), Workspace("acme"), f"caller-{number}") for number in range(20_000)
    )
    assert abs(inside[RolloutDecision.RUN] - 5_000) < 4 * (20_000 * 0.25 * 0.75) ** 0.5


def test_workspace_and_caller_do_not_run_into_each_other() -> None:
    """E12: ('a', 'bc') and ('ab', 'c') are counted apart."""
    assert bucket(Workspace("a"), "bc") != bucket(Workspace("ab"), "c")
    assert 0 <= bucket(Workspace("a"), "bc") < BUCKETS
