"""A holder that is slow, stuck or failing costs a request next to nothing and never an error."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode, GeneralError
from openfeature.flag_evaluation import FlagResolutionDetails
from openfeature.hook import Hook
from openfeature.provider import FeatureProvider

from service.adapters.flags import evaluated
from service.adapters.flags.evaluated import OpenFeatureFlag
from service.adapters.flags.providers import TextProvider, workspace_of
from service.adapters.flags.settings import FlagTiming
from service.core.rollout import OFF, parse_flag
from service.model import Workspace
from service.ports.flag import FlagHolder
from tests.rollout.parts import until

pytestmark = pytest.mark.anyio
ACME, OTHER = Workspace("acme"), Workspace("other")
Details = FlagResolutionDetails[str]
Say = Callable[[Workspace], Awaitable[str]]


class Saying(TextProvider):
    """Answers what a coroutine says."""

    def __init__(self, say: Say) -> None:
        super().__init__("saying")
        self.say = say
        self.contexts: list[EvaluationContext | None] = []

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> Details:
        """Never asked this way."""
        raise AssertionError

    async def resolve_string_details_async(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> Details:
        """The coroutine's word."""
        self.contexts.append(evaluation_context)
        return Details(value=await self.say(workspace_of(evaluation_context)))


class Blocking(TextProvider):
    """Blocks its thread until it is let go, as a provider with a synchronous client does."""

    def __init__(self) -> None:
        super().__init__("blocking")
        self.gate = threading.Event()
        self.threads = 0

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> Details:
        """On, when it is let go."""
        self.threads += 1
        self.gate.wait(30)
        return Details(value="on")


@asynccontextmanager
async def opened(provider: FeatureProvider, timing: FlagTiming) -> AsyncIterator[OpenFeatureFlag]:
    """A flag over a provider, closed afterwards."""
    flag = OpenFeatureFlag(provider, FlagHolder.FLAGD, "on", timing)
    try:
        yield flag
    finally:
        await flag.close()


async def never(_: Workspace) -> str:
    """Hangs."""
    await asyncio.Event().wait()
    raise AssertionError


async def says_on(_: Workspace) -> str:
    """Answers at once."""
    return "on"


async def test_a_holder_that_hangs_is_off_and_waited_for_once() -> None:
    """E12: while a holder hangs the flag is off; one request waits its patience, and no other one any time."""
    async with opened(Saying(never), FlagTiming(first_patience=0.1, patience=0.1)) as flag:
        began = time.monotonic()
        first = await flag.reading(ACME)
        assert time.monotonic() - began < 5
        assert (first.state, first.problem) == (OFF, "the flag's holder is slow")
        for _ in range(1_000):
            assert await flag.state(ACME) == OFF
            assert await flag.state(OTHER) == OFF
        assert flag.counters.late == 1
        assert flag.counters.asked == 2


async def test_a_holder_that_gets_slow_leaves_the_last_known_state() -> None:
    """E12: a holder that stops answering leaves what it said last; when it answers again, that counts."""
    provider = Saying(says_on)
    timing = FlagTiming(fresh=0.0, first_patience=5.0, patience=0.01, give_up=0.05, recovery=0.0)
    async with opened(provider, timing) as flag:
        assert await flag.state(ACME) == parse_flag("on")
        provider.say = never
        for _ in range(20):
            reading = await flag.reading(ACME)
            assert reading.state == parse_flag("on")
            assert reading.problem is not None
            await asyncio.sleep(0.01)

        async def says_off(_: Workspace) -> str:
            return "off"

        provider.say = says_off
        await until(flag, ACME, OFF)
        assert (await flag.reading(ACME)).problem is None


async def test_a_holder_that_blocks_never_blocks_the_event_loop() -> None:
    """E12: a provider without an asynchronous method is asked on a thread; a stuck one holds one thread."""
    provider = Blocking()
    timing = FlagTiming(fresh=0.0, first_patience=0.05, patience=0.05, recovery=0.0)
    async with opened(provider, timing) as flag:
        for _ in range(5):
            assert await flag.state(ACME) == OFF
        assert provider.threads == 1
        provider.gate.set()
        await until(flag, ACME, parse_flag("on"))


async def test_a_holder_that_fails_leaves_the_last_known_state() -> None:
    """E12: an error of the holder is counted, shown, and changes nothing."""
    provider = Saying(says_on)
    async with opened(provider, FlagTiming(fresh=0.0)) as flag:
        assert await flag.state(ACME) == parse_flag("on")
        for error in (GeneralError("gone"), RuntimeError("defect"), ExceptionGroup("many", [OSError()])):

            async def fails(_: Workspace, error: Exception = error) -> str:
                raise error

            provider.say = fails
            reading = await flag.reading(ACME)
            assert reading.state == parse_flag("on")
            assert "failed" in (reading.problem or "")
        assert flag.counters.failed == 3
        assert await flag.state(OTHER) == OFF


class Defective(Saying):
    """A provider that fails where the SDK has no net."""

    def get_provider_hooks(self) -> list[Hook]:
        """Fails."""
        raise ZeroDivisionError


async def test_a_defect_past_the_sdk_is_off_not_an_error() -> None:
    """E12: whatever a provider raises, a request sees a state."""
    async with opened(Defective(says_on), FlagTiming(fresh=0.0)) as flag:
        for number in range(1, 4):
            reading = await flag.reading(ACME)
            assert reading.state == OFF
            assert reading.problem == "asking for the flag failed (ZeroDivisionError)"
            assert flag.counters.failed == number


async def test_the_holder_is_told_the_workspace() -> None:
    """E12: the evaluation context names the workspace, as targeting key and as attribute."""
    provider = Saying(says_on)
    async with opened(provider, FlagTiming()) as flag:
        await flag.state(ACME)
    context = provider.contexts[0]
    assert context is not None
    assert (context.targeting_key, dict(context.attributes)) == ("acme", {"workspace": "acme"})


async def test_many_requests_ask_once() -> None:
    """E12: requests that need the state at the same time share one question."""

    async def slowly(_: Workspace) -> str:
        await asyncio.sleep(0.02)
        return "on"

    provider = Saying(slowly)
    async with opened(provider, FlagTiming(first_patience=10.0)) as flag:
        states = await asyncio.gather(*(flag.state(ACME) for _ in range(200)))
        assert set(states) == {parse_flag("on")}
        assert len(provider.contexts) == 1


async def test_a_cancelled_request_does_not_take_the_others_down() -> None:
    """E12: a client that goes away while the flag is asked for leaves the question to those that stay."""
    gate = asyncio.Event()

    async def gated(_: Workspace) -> str:
        await gate.wait()
        return "on"

    async with opened(Saying(gated), FlagTiming(first_patience=10.0)) as flag:
        gone, stays = asyncio.create_task(flag.state(ACME)), asyncio.create_task(flag.state(ACME))
        await asyncio.sleep(0.01)
        gone.cancel()
        await asyncio.sleep(0.01)
        gate.set()
        assert await stays == parse_flag("on")


async def test_two_flags_in_a_process_do_not_share_a_holder() -> None:
    """E12: each flag has its own provider, and closing one leaves the other."""

    async def says_shadow(_: Workspace) -> str:
        return "shadow"

    async with opened(Saying(says_on), FlagTiming(fresh=0.0)) as one:
        async with opened(Saying(says_shadow), FlagTiming(fresh=0.0)) as other:
            assert str(await one.state(ACME)) == "on"
            assert str(await other.state(ACME)) == "shadow"
        assert str(await one.state(ACME)) == "on"


async def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """E12: states of at most so many workspaces are remembered; a forgotten one is asked for again."""
    monkeypatch.setattr(evaluated, "MAX_WORKSPACES", 3)
    async with opened(Saying(says_on), FlagTiming()) as flag:
        for number in range(10):
            await flag.state(Workspace(str(number)))
        assert list(flag._known) == ["7", "8", "9"]
        assert await flag.state(Workspace("0")) == parse_flag("on")


@pytest.mark.parametrize("code", [ErrorCode.PARSE_ERROR, ErrorCode.TYPE_MISMATCH, ErrorCode.INVALID_CONTEXT])
async def test_a_flag_that_is_wrong_at_its_holder_means_off(code: ErrorCode) -> None:
    """E12: a holder that answers that its flag is wrong means off, even after it said on."""
    provider = Saying(says_on)
    async with opened(provider, FlagTiming(fresh=0.0)) as flag:
        assert await flag.state(ACME) == parse_flag("on")

        async def is_wrong(_: Workspace) -> str:
            raise ErrorCode.to_exception(code, "wrong")

        provider.say = is_wrong
        reading = await flag.reading(ACME)
        assert reading.state == OFF
        assert code.value in (reading.problem or "")
