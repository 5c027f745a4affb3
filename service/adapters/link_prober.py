"""Visiting URLs with httpx: HEAD, then GET where HEAD proves nothing; politely, and only where allowed."""

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Final, Self

import httpx

from service.adapters.link_pacing import Clock, HostGates, Pace, SystemClock
from service.adapters.link_targets import TargetPolicy, follow, host_of, read_url
from service.adapters.link_transport import (
    DEFAULT_USER_AGENT,
    Answer,
    PinnedRequests,
    RequestLimits,
    Resolver,
    system_resolver,
)
from service.ports.links import Liveness, Reason, judge_status

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_TRY_LATER: Final = frozenset({408, 425, 429})
_NEVER_LATER: Final = frozenset({501, 505})
_NO_ANSWER: Final = frozenset({Reason.TIMEOUT, Reason.CONNECTION, Reason.NAME_LOOKUP})
_RETRIED: Final = _NO_ANSWER | {Reason.PROTOCOL}
_LONGEST_SHUT: Final = 3600.0


@dataclass(frozen=True, slots=True)
class RetryRule:
    """How often and how late a request in passing trouble is repeated; times in seconds.

    The first repetition waits `backoff`, each later one twice as long, or what Retry-After asks for. A
    server that asks for more than `longest_wait` is left alone for as long as it asked.
    """

    retries: int = 2
    backoff: float = 0.5
    longest_wait: float = 15.0


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """How URLs are visited."""

    targets: TargetPolicy = field(default_factory=TargetPolicy)
    pace: Pace = field(default_factory=Pace)
    limits: RequestLimits = field(default_factory=RequestLimits)
    retry: RetryRule = field(default_factory=RetryRule)
    max_redirects: int = 8
    user_agent: str = DEFAULT_USER_AGENT


class HttpLinkProber:
    """A `LinkProber` over HTTP. Use it as an async context manager, on one event loop.

    A page that moved is alive where it moved to; every step of the way is checked like the first. A page
    that answers 200 with an apology cannot be told from a good one.
    """

    def __init__(
        self,
        settings: ProbeSettings,
        *,
        resolver: Resolver = system_resolver,
        clock: Clock | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """`ssl_context` replaces the public certificate authorities, for sites with their own."""
        self._settings = settings
        self._gates = HostGates(settings.pace, clock or SystemClock())
        self._requests = PinnedRequests(
            settings.targets,
            settings.limits,
            user_agent=settings.user_agent,
            resolver=resolver,
            ssl_context=ssl_context,
        )

    async def __aenter__(self) -> Self:
        """Nothing is opened before the first probe."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection."""
        await self._requests.aclose()

    async def probe(self, url: str) -> Liveness:
        """What `url` is now, after its redirects."""
        target = read_url(url)
        if target is None:
            return Liveness(Reason.MALFORMED_URL)
        visited: set[httpx.URL] = set()
        while len(visited) <= self._settings.max_redirects and target not in visited:
            visited.add(target)
            refusal = self._settings.targets.refuse_url(target)
            answer = refusal or await self._ask(target)
            if isinstance(answer, Reason):
                return Liveness(answer)
            if answer.status not in _REDIRECTS:
                return judge_status(answer.status)
            target = None if answer.location is None else follow(target, answer.location)
            if target is None:
                return Liveness(Reason.BAD_REDIRECT, answer.status)
        return Liveness(Reason.REDIRECTS)

    async def _ask(self, url: httpx.URL) -> Answer | Reason:
        """The answer of one URL that stands: HEAD's when it is good or a redirect, else GET's."""
        method, attempt = "HEAD", 0
        while True:
            answer = await self._send(method, url)
            if is_passing(answer):
                delay = repeat_after(answer, attempt, self._settings.retry)
                if delay is None:
                    return answer
                self._gates.hold(host_of(url), delay)
                attempt += 1
            elif stands(method, answer):
                return answer
            method = "GET"

    async def _send(self, method: str, url: httpx.URL) -> Answer | Reason:
        host = host_of(url)
        async with self._gates.turn(host) as shut:
            if shut is not None:
                return shut
            answer = await self._requests.send(method, url)
            self._note(host, answer)
            return answer

    def _note(self, host: str, answer: Answer | Reason) -> None:
        if isinstance(answer, Reason):
            if answer in _NO_ANSWER:
                self._gates.failed(host)
            return
        self._gates.answered(host)
        asked = wait_asked(answer, datetime.now(UTC))
        if asked is not None and asked > self._settings.retry.longest_wait:
            self._gates.shut(host, min(asked, _LONGEST_SHUT), Reason.RATE_LIMITED)


def is_passing(answer: Answer | Reason) -> bool:
    """True when the same request may well be answered otherwise in a moment."""
    if isinstance(answer, Reason):
        return answer in _RETRIED
    return answer.status in _TRY_LATER or (answer.status >= 500 and answer.status not in _NEVER_LATER)


def stands(method: str, answer: Answer | Reason) -> bool:
    """True when an answer that is not passing trouble needs no GET to confirm it.

    HEAD is never the last word on a page that is not there: servers that refuse or mishandle it are many.
    """
    if isinstance(answer, Reason) or method == "GET" or answer.status < 300:
        return True
    return answer.status in _REDIRECTS and answer.location is not None


def repeat_after(answer: Answer | Reason, attempt: int, rule: RetryRule) -> float | None:
    """Seconds until passing trouble is asked again; None when enough was asked, or it asks for too long.

    `attempt` counts the earlier repetitions.
    """
    if attempt >= rule.retries:
        return None
    asked = None if isinstance(answer, Reason) else wait_asked(answer, datetime.now(UTC))
    if asked is None:
        return rule.backoff * 2.0**attempt
    return asked if asked <= rule.longest_wait else None


def wait_asked(answer: Answer, now: datetime) -> float | None:
    """Seconds from `now` that a 429 or 503 asks to wait, never negative; None when it names no time."""
    value = (answer.retry_after or "").strip()
    if answer.status not in {429, 503} or not value:
        return None
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - now).total_seconds())
