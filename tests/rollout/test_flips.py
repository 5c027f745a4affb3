"""The flag flips while requests are answered."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from service.adapters.flags.opening import open_flag
from service.adapters.flags.settings import FlagSettings, FlagTiming
from service.adapters.sql.rollout import SqlFlagLedger
from service.ports.flag import FlagChange
from service.search.plan import Hybrid
from service.search.request import Answer, Arms, ArmState, ByQuery, RetrieveOptions, VectorArm
from service.search.retrieve import Retriever
from tests.rollout.parts import GENEROUS_S, WORKSPACE, House

pytestmark = pytest.mark.anyio
STATES = ["on", "off", "shadow", "100%", "0%"]
FLIPS = 100


def results_of(answer: Answer) -> bytes:
    """What a caller reads."""
    return msgspec.json.encode(replace(answer, vector=VectorArm(ArmState.OFF, "")))


async def test_a_hundred_flips_under_load_fail_no_request(
    home_both: House, flags_both: SqlFlagLedger
) -> None:
    """E12: while the flag flips 100 times no request fails, and each answer is wholly that of one state."""
    timing = FlagTiming(fresh=0.0, first_patience=10.0, patience=10.0)
    flag = open_flag(FlagSettings(timing=timing), flags_both)
    retriever = Retriever(
        home_both.app.store, home_both.app.lexical, Hybrid(home_both.arm, flag, budget=GENEROUS_S)
    )
    subject, asked = ByQuery("sill"), RetrieveOptions(WORKSPACE)
    lexical = results_of(await home_both.lexical_retriever().retrieve(subject, asked))
    hybrid = results_of(await retriever.retrieve(subject, replace(asked, arms=Arms.HYBRID)))
    assert lexical != hybrid
    seen: set[tuple[str, str]] = set()
    done = asyncio.Event()

    async def ask_on() -> None:
        while not done.is_set():
            answer = await retriever.retrieve(subject, asked)
            seen.add((answer.vector.state.value, answer.vector.reason))
            expected = hybrid if answer.vector.state is ArmState.RAN else lexical
            assert results_of(answer) == expected

    readers = [asyncio.create_task(ask_on()) for _ in range(4)]
    for number in range(FLIPS):
        async with flags_both.changing(None) as write:
            now = datetime.now(UTC)
            text = STATES[number % len(STATES)]
            await write.record(
                FlagChange(None, now, "test", write.before, text, "a flip", None, forced=False)
            )
        await asyncio.sleep(0.005)
    done.set()
    await asyncio.gather(*readers)
    await flag.close()
    assert seen == {("ran", "ran"), ("off", "off"), ("off", "shadow"), ("off", "not_in_rollout")}
    assert flag.counters.failed == 0
    assert len(await flags_both.changes(FLIPS + 1)) == FLIPS
