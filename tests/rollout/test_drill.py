"""Drills show the degraded answer: it is the lexical one, to the byte."""

from dataclasses import replace

import msgspec
import pytest

from service.core.drill import Drill, DrillKind, parse_drill
from service.core.rollout import FlagKind, FlagState
from service.errors import InvalidInput
from service.search.degradation import Reason
from service.search.request import Answer, Arms, ArmState, ByQuery, Explain, RetrieveOptions, VectorArm
from tests.rollout.parts import QUERIES, WORKSPACE, House

pytestmark = pytest.mark.anyio
UNNAMED = VectorArm(ArmState.OFF, "")


def as_bytes(answer: Answer) -> bytes:
    """Everything of an answer but what it says of the vector arm."""
    return msgspec.json.encode(replace(answer, vector=UNNAMED))


@pytest.mark.parametrize(
    ("text", "drill"),
    [
        ("off", Drill(DrillKind.OFF)),
        (" ERROR ", Drill(DrillKind.ERROR)),
        ("slow:300ms", Drill(DrillKind.SLOW, 0.3)),
        ("slow:60000ms", Drill(DrillKind.SLOW, 60.0)),
    ],
)
def test_drills_are_read(text: str, drill: Drill) -> None:
    """E14: a drill forces the arm off, into an error, or slow by milliseconds."""
    assert parse_drill(text) == drill


@pytest.mark.parametrize(
    "text", ["", "on", "slow", "slow:ms", "slow:-1ms", "slow:60001ms", "slow:3s", "off,error"]
)
def test_everything_else_is_no_drill(text: str) -> None:
    """E14: what is no drill is refused with the unit that a drill has; none is longer than a minute."""
    with pytest.raises(InvalidInput, match="whole milliseconds, at most 60000"):
        parse_drill(text)


@pytest.mark.parametrize(
    ("order", "reason"),
    [("off", Reason.FORCED_OFF), ("error", Reason.STORE_ERROR), ("slow:5000ms", Reason.STORE_TIMEOUT)],
)
async def test_a_drill_shows_the_degraded_answer(home_both: House, order: str, reason: Reason) -> None:
    """E14: under a drill the answer says degraded and why, and is the lexical one byte for byte (C27)."""
    home_both.flag.default = FlagState(FlagKind.ON)
    with_arm, without = home_both.retriever(budget=0.02), home_both.lexical_retriever()
    for query in QUERIES[:-2]:
        asked = RetrieveOptions(WORKSPACE, explain=Explain.ON, limit=3)
        drilled = await with_arm.retrieve(ByQuery(query), replace(asked, drill=parse_drill(order)))
        plain = await without.retrieve(ByQuery(query), asked)
        assert drilled.vector == VectorArm(ArmState.DEGRADED, reason)
        assert as_bytes(drilled) == as_bytes(plain)
        assert plain.results


async def test_without_a_drill_the_arm_runs(home: House) -> None:
    """E14: the same request without the drill is answered by both arms, and differently."""
    home.flag.default = FlagState(FlagKind.ON)
    asked = RetrieveOptions(WORKSPACE)
    hybrid = await home.retriever().retrieve(ByQuery("sill"), asked)
    lexical = await home.lexical_retriever().retrieve(ByQuery("sill"), asked)
    assert hybrid.vector == VectorArm(ArmState.RAN, "ran")
    assert as_bytes(hybrid) != as_bytes(lexical)


async def test_a_short_delay_fits_into_the_budget(home: House) -> None:
    """E14: an arm that is slow, but in time, answers."""
    slowly = RetrieveOptions(WORKSPACE, arms=Arms.HYBRID, drill=parse_drill("slow:20ms"))
    answer = await home.retriever().retrieve(ByQuery("sill"), slowly)
    assert answer.vector.state is ArmState.RAN


@pytest.mark.parametrize("kind", [FlagKind.OFF, FlagKind.SHADOW])
async def test_a_drill_needs_no_flag(home: House, kind: FlagKind) -> None:
    """E14: the degraded answer can be seen before anybody has the arm; a drill asks for it whatever the flag."""
    home.flag.default = FlagState(kind)
    handed_over: list[Answer] = []
    retriever = home.retriever(shadow=lambda subject, options, answer: handed_over.append(answer))
    asked = RetrieveOptions(WORKSPACE)
    drilled = await retriever.retrieve(ByQuery("sill"), replace(asked, drill=parse_drill("error")))
    assert drilled.vector == VectorArm(ArmState.DEGRADED, Reason.STORE_ERROR)
    slowly = await retriever.retrieve(ByQuery("sill"), replace(asked, drill=parse_drill("slow:20ms")))
    assert slowly.vector.state is ArmState.RAN
    assert handed_over == []
    plain = await retriever.retrieve(ByQuery("sill"), asked)
    assert plain.vector.state is ArmState.OFF
    assert as_bytes(drilled) == as_bytes(plain)


async def test_drills_do_not_open_the_breaker(home: House) -> None:
    """E14: after many failing drills, the next ordinary request is answered by both arms."""
    home.flag.default = FlagState(FlagKind.ON)
    retriever = home.retriever()
    for _ in range(20):
        await retriever.retrieve(ByQuery("sill"), RetrieveOptions(WORKSPACE, drill=parse_drill("error")))
    answer = await retriever.retrieve(ByQuery("sill"), RetrieveOptions(WORKSPACE))
    assert answer.vector.state is ArmState.RAN
