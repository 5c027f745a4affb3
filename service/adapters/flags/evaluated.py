"""The flag as the read path asks for it: any OpenFeature provider behind a short memory.

Implements FlagReader. A request finds the state in memory; once a second one of them asks the provider, and
waits for it briefly. A provider that is slow or ill costs no request more than that, once.
"""

import asyncio
import contextvars
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import structlog
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.flag_evaluation import FlagEvaluationDetails
from openfeature.provider import AbstractProvider, FeatureProvider
from openfeature.provider.no_op_provider import NoOpProvider

from service.adapters.flags.answers import NoAnswer, understood
from service.adapters.flags.daemon_call import call_on_daemon
from service.adapters.flags.providers import WORKSPACE, TextProvider
from service.adapters.flags.settings import FlagTiming
from service.core.rollout import OFF, FlagState
from service.model import Workspace
from service.ports.flag import FLAG_KEY, FlagHolder, FlagReading

MAX_WORKSPACES = 10_000  # remembered at once; beyond, the one asked for least recently is forgotten
_NOBODY = NoOpProvider()  # stands in the SDK's registry where a closed flag's provider stood
_log = structlog.get_logger(__name__)
Details = FlagEvaluationDetails[str]


@dataclass(slots=True)
class FlagCounters:
    """What became of the questions since the start. `late` counts the requests that waited in vain."""

    asked: int = 0
    late: int = 0
    failed: int = 0
    unparsable: int = 0


@dataclass(frozen=True, slots=True)
class _Known:
    """A workspace's last reading, good until `until`."""

    reading: FlagReading
    until: float


class OpenFeatureFlag:
    """One flag of one provider. Belongs to the event loop that asks it."""

    def __init__(
        self, provider: FeatureProvider, holder: FlagHolder, environment: str, timing: FlagTiming
    ) -> None:
        self._holder = holder
        self._environment = environment
        self._timing = timing
        self._domain = f"citewell-{uuid.uuid4().hex}"  # the SDK's registry is the process's, the flag is not
        self._client = api.get_client(self._domain)
        self._evaluate = _way_to_ask(provider, self._client, timing.give_up)
        self._known: dict[Workspace, _Known] = {}
        self._asking: dict[Workspace, asyncio.Task[None]] = {}
        self._patient_from = float("-inf")
        self._said: set[str] = set()
        self.counters = FlagCounters()
        # The project's own providers need no time to start; any other one starts in the background.
        register = api.set_provider_and_wait if isinstance(provider, TextProvider) else api.set_provider
        register(provider, self._domain)

    async def state(self, workspace: Workspace) -> FlagState:
        """From memory while it is fresh. Never raises."""
        known = self._known.get(workspace)
        if known is not None and time.monotonic() < known.until:
            return known.reading.state
        return (await self.reading(workspace)).state

    async def reading(self, workspace: Workspace) -> FlagReading:
        """The state, its holder and what is wrong with it. Never raises."""
        known = self._known.get(workspace)
        now = time.monotonic()
        if known is not None and now < known.until:
            return known.reading
        question = self._asking.get(workspace) or self._ask(workspace)
        if now >= self._patient_from:
            patience = self._timing.first_patience if known is None else self._timing.patience
            await asyncio.wait([question], timeout=patience)
            if not question.done():
                self._patient_from = time.monotonic() + self._timing.recovery
                self.counters.late += 1
                self._keep_last(workspace, "the flag's holder is slow", until=now)
        found = self._known.get(workspace)
        return FlagReading(OFF, self._holder, "the flag's holder is slow") if found is None else found.reading

    async def close(self) -> None:
        """Stop asking and let the provider shut down, in the background."""
        questions = list(self._asking.values())
        for question in questions:
            question.cancel()
        if questions:
            await asyncio.wait(questions)
        api.set_provider(_NOBODY, self._domain)

    def _ask(self, workspace: Workspace) -> asyncio.Task[None]:
        self.counters.asked += 1
        until = time.monotonic() + self._timing.fresh
        question = asyncio.create_task(self._question(workspace, until), context=contextvars.Context())
        self._asking[workspace] = question
        question.add_done_callback(partial(self._on_unexpected, workspace, until))
        return question

    async def _question(self, workspace: Workspace, until: float) -> None:
        context = EvaluationContext(targeting_key=workspace, attributes={WORKSPACE: workspace})
        try:
            meant = understood(await self._evaluate(self._environment, context))
        except NoAnswer as failure:
            self._fail(workspace, str(failure), until)
        except TimeoutError:
            self._fail(workspace, "the flag's holder does not answer", until)
        else:
            if meant.unparsable is not None:
                self.counters.unparsable += 1
                self._say_once("flag_unparsable", meant.unparsable)
            self._keep(workspace, _Known(FlagReading(meant.state, self._holder, meant.problem), until))
        finally:
            del self._asking[workspace]

    def _on_unexpected(self, workspace: Workspace, until: float, question: asyncio.Task[None]) -> None:
        """What a foreign provider or hook raised past the SDK."""
        error = None if question.cancelled() else question.exception()
        if error is not None:
            self._fail(workspace, f"asking for the flag failed ({type(error).__name__})", until)

    def _fail(self, workspace: Workspace, problem: str, until: float) -> None:
        self.counters.failed += 1
        self._say_once("flag_holder_failed", problem)
        self._keep_last(workspace, problem, until)

    def _keep_last(self, workspace: Workspace, problem: str, until: float) -> None:
        """What was known goes on counting; off where nothing was."""
        known = self._known.get(workspace)
        state = OFF if known is None else known.reading.state
        self._keep(workspace, _Known(FlagReading(state, self._holder, problem), until))

    def _keep(self, workspace: Workspace, known: _Known) -> None:
        before = self._known.pop(workspace, None)
        if before is not None and before.reading.state != known.reading.state:
            _log.info(
                "flag_changed",
                workspace=workspace,
                before=str(before.reading.state),
                after=str(known.reading.state),
                holder=self._holder.value,
            )
        self._known[workspace] = known
        if len(self._known) > MAX_WORKSPACES:
            del self._known[next(iter(self._known))]

    def _say_once(self, event: str, what: str) -> None:
        if what not in self._said and len(self._said) < 100:
            self._said.add(what)
            _log.warning(event, holder=self._holder.value, what=what)


def _way_to_ask(
    provider: FeatureProvider, client: OpenFeatureClient, give_up: float
) -> Callable[[str, EvaluationContext], Awaitable[Details]]:
    """How a provider is asked without holding up the event loop.

    The SDK answers an asynchronous question with the provider's blocking method where it has no other.
    """
    own = getattr(type(provider), "resolve_string_details_async", None)
    blocking = own in (None, AbstractProvider.resolve_string_details_async)

    async def asynchronously(default: str, context: EvaluationContext) -> Details:
        async with asyncio.timeout(give_up):
            return await client.get_string_details_async(FLAG_KEY, default, context)

    async def on_a_thread(default: str, context: EvaluationContext) -> Details:
        # Not abandoned: the thread would stay, and each further question would leave another one behind.
        return await call_on_daemon(lambda: client.get_string_details(FLAG_KEY, default, context))

    return on_a_thread if blocking else asynchronously
