"""The outermost part of the surface: every request gets an id, a place, a clock, a count and a line in the log."""

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, perf_counter
from typing import Final
from uuid import uuid4

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send
from msgspec import json
from structlog.contextvars import bound_contextvars

from service.core.access import Access
from service.errors import DeadlineExceeded, Overloaded, Unavailable
from service.surfaces.http.access import ARRIVED
from service.surfaces.http.access_log import Finished, note_code, noting, write_line
from service.surfaces.http.leaving import Leaving
from service.surfaces.http.lifecycle import Draining
from service.surfaces.http.mailbox import ClientGone, Mailbox
from service.surfaces.http.metrics import UNMATCHED, Metrics
from service.surfaces.http.passage import Passage
from service.surfaces.http.problems import PROBLEM_JSON, REQUEST_ID, headers_of, problem_of
from service.surfaces.http.queue import NOBODY, Lane, Limits, Place, Work

CLIENT_GONE: Final = 499  # the status on record for a client that did not wait for its answer
REMEMBERED: Final = 10_000  # callers whose keys were good, so that they are told apart in the queue
IMPORT_PATH: Final = "/v1/items/import"
_READING_POSTS: Final = ("/v1/retrieve", "/v1/selection/", "/sign-in", "/sign-out")
_READING_METHODS: Final = ("GET", "HEAD", "OPTIONS")
_GIVEN_ID: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")
_HEALTH: Final = "/health/"
_ALWAYS: Final = (_HEALTH, "/metrics")  # answered even when the service is full


@dataclass(frozen=True, slots=True)
class House:
    """What a gate must know of the application behind it.

    `is_open` says whether its parts are; `template` is the route that a path leads to, None for none.
    """

    app: ASGIApp
    is_open: Callable[[], bool]
    template: Callable[[str], str | None]


class Gate:
    """Wraps the application. An ASGI app itself.

    `rejected` counts the requests that it answered itself, by reason.
    """

    def __init__(
        self, house: House, metrics: Metrics, limits: Limits | None = None, leaving: Leaving | None = None
    ) -> None:
        self._house = house
        self._metrics = metrics
        self._limits = limits or Limits()
        self._lanes = {work: Lane(size) for work, size in self._limits.lanes().items()}
        self._callers: OrderedDict[bytes, bytes] = OrderedDict()
        self._clocks: set[asyncio.Timeout] = set()
        self._leaving = leaving or Leaving(Draining())
        self._leaving.tell(self._hurry)
        self._here = 0  # requests that have come and are not answered, health and metrics not counted
        self.rejected = {"overloaded": 0, "deadline_exceeded": 0, "client_gone": 0, "unavailable": 0}

    @property
    def working(self) -> int:
        """Requests that are worked on, health and metrics not counted."""
        return sum(lane.working for lane in self._lanes.values())

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return sum(lane.waiting for lane in self._lanes.values())

    def lanes(self) -> dict[Work, tuple[int, int]]:
        """Working and waiting, for each kind of work."""
        return {work: (lane.working, lane.waiting) for work, lane in self._lanes.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; what is no HTTP request passes untouched."""
        if scope["type"] != ScopeType.HTTP:
            await self._house.app(scope, receive, send)
            return
        scope.setdefault("state", {})[ARRIVED] = monotonic()
        request_id = _request_id(scope)
        passage = Passage(send, request_id)
        inside = _as_get(scope, passage) if scope["method"] == "HEAD" else scope
        quiet = scope["path"].startswith(_ALWAYS)
        with (
            bound_contextvars(**{REQUEST_ID: request_id}),
            self._metrics.in_flight.track_inprogress(),
            noting() as notes,
        ):
            try:
                await self._admit(inside, receive, passage)
            finally:
                scope["path_template"] = self._route(inside)  # for the span too, which is further out
                done = self._finished(scope, passage, request_id)
                self._metrics.answered(done.method, done.route, done.status, done.seconds)
                write_line(done, notes, quiet=quiet, log_queries=self._limits.log_queries)

    async def _admit(self, scope: HTTPScope, receive: Receive, passage: Passage) -> None:
        """Health is told always, metrics as soon as there are any, all else to who comes in time."""
        refusal = self._closed(scope["path"])
        if refusal is not None:
            await self._refuse(refusal, passage)
        elif scope["path"].startswith(_ALWAYS):
            await self._house.app(scope, receive, passage.send)
        else:
            self._here += 1
            try:
                await self._in_time(scope, Mailbox(receive), passage)
            finally:
                self._here -= 1

    def _closed(self, path: str) -> Unavailable | None:
        """What is told to whoever comes too early, too late, or when too many are here whose requests are read."""
        if path.startswith(_HEALTH):
            return None
        if not self._house.is_open():
            return Unavailable("the service is starting; nothing of the request was begun")
        if path.startswith(_ALWAYS):
            return None
        if self._leaving.begun:
            return Unavailable("the service is stopping; nothing of the request was begun")
        if self._here >= self._limits.here:
            return Overloaded("the service reads as many requests as it can; nothing of this one was begun")
        return None

    def _route(self, scope: HTTPScope) -> str:
        """The template of the path, whether or not the request was routed."""
        return str(scope.get("path_template") or self._house.template(scope["path"]) or UNMATCHED)

    def _finished(self, scope: HTTPScope, passage: Passage, request_id: str) -> Finished:
        access = scope.get("state", {}).get("access")
        known = access if isinstance(access, Access) else None
        key = _key_of(scope)
        if (
            known is not None and known.key_id is not None and key != NOBODY
        ):  # a page's key came in its cookie
            self._remember(key, known.key_id.encode())
        return Finished(
            method=scope["method"],
            route=scope["path_template"],
            status=passage.status,
            seconds=passage.seconds,
            request_id=request_id,
            access=known,
            reason=passage.reason,
        )

    async def _in_time(self, scope: HTTPScope, mailbox: Mailbox, passage: Passage) -> None:
        """Let a request in when its turn comes; its deadline counts from its arrival, waiting included."""
        work = work_of(scope["method"], scope["path"])
        arrived = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(min(arrived + self._limits.deadline, self._leaving.until)) as clock:
                self._clocks.add(clock)
                await self._in_turn(work, scope, mailbox, passage, clock)
        except TimeoutError:
            if not clock.expired():
                raise
            await self._refuse(self._too_late(work, passage), passage)
        except Overloaded as error:
            await self._refuse(error, passage)
        except ClientGone:
            self.rejected["client_gone"] += 1
            passage.status, passage.reason = CLIENT_GONE, "client_gone"
        finally:
            self._clocks.discard(clock)

    async def _in_turn(
        self,
        work: Work,
        scope: HTTPScope,
        mailbox: Mailbox,
        passage: Passage,
        clock: asyncio.Timeout,
    ) -> None:
        """Wait for a slot and hold it for as long as the application works. Raises Overloaded, ClientGone."""
        lane, holder = self._lanes[work], _key_of(scope)
        if work is not Work.IMPORT:
            await mailbox.read_body()  # whoever sends a body byte by byte holds no slot meanwhile
        if not lane.take(holder):
            await _turn(lane, lane.line_up(self._callers.get(holder, NOBODY), holder), mailbox)
        began = perf_counter()
        passage.has_begun = True
        try:
            if work is Work.IMPORT and not clock.expired():
                clock.reschedule(self._leaving.until if self._leaving.begun else None)
            await self._house.app(scope, mailbox.receive, passage.send)
        finally:
            lane.leave(perf_counter() - began, holder)

    def _too_late(self, work: Work, passage: Passage) -> Unavailable:
        """What is told to a request whose time is over."""
        if self._leaving.begun:
            return Unavailable("the service is stopping and had no time left for the request")
        limit = f"{self._limits.deadline:g} seconds"
        if not passage.has_begun:
            return DeadlineExceeded(
                f"the request was not complete or had no turn within {limit}; nothing was begun"
            )
        if work is Work.READ:
            return DeadlineExceeded(f"the request took more than {limit}")
        return DeadlineExceeded(
            f"the request took more than {limit}; what it had committed stays committed, "
            "and sending it again is safe"
        )

    async def _refuse(self, error: Unavailable, passage: Passage) -> None:
        """Answer in the application's place. An answer that has begun can only be cut off."""
        self.rejected[error.code] = self.rejected.get(error.code, 0) + 1
        passage.reason = error.code
        note_code(error.code)
        if passage.has_answer:
            return  # the server closes the connection, since the answer is not complete
        body = json.encode(problem_of(error))
        headers = {**headers_of(error), "content-type": PROBLEM_JSON, "content-length": str(len(body))}
        if self._leaving.begun:
            headers["connection"] = "close"
        await passage.send(
            {
                "type": "http.response.start",
                "status": 503,
                "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            }
        )
        await passage.send({"type": "http.response.body", "body": body, "more_body": False})

    def _hurry(self, until: float) -> None:
        """Nobody has longer than the process itself."""
        for clock in self._clocks:
            when = clock.when()
            if not clock.expired() and (when is None or when > until):
                clock.reschedule(until)

    def _remember(self, key: bytes, caller: bytes) -> None:
        """From now on who brings this key waits as its owner; everybody else is one caller.

        Keys that were made up would otherwise each get a turn of their own.
        """
        self._callers[key] = caller
        self._callers.move_to_end(key)
        if len(self._callers) > REMEMBERED:
            self._callers.popitem(last=False)


def _as_get(scope: HTTPScope, passage: Passage) -> HTTPScope:
    """A HEAD is answered as a GET would be, whose body is then left out."""
    passage.is_bare = True
    return {**scope, "method": "GET"}


def work_of(method: str, path: str) -> Work:
    """What a request will do, judged before it is read; whatever is not known to read counts as a write."""
    if method in _READING_METHODS or path.startswith(_READING_POSTS):
        return Work.READ
    return Work.IMPORT if path.rstrip("/") == IMPORT_PATH else Work.WRITE


async def _turn(lane: Lane, place: Place, mailbox: Mailbox) -> None:
    """Wait until the place has its turn. Raises Overloaded, ClientGone; the place is then given back."""
    has_turn = False
    try:
        async with mailbox.watched() as gone:
            await asyncio.wait({place.turn, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not place.turn.done():
                raise ClientGone
        place.turn.result()
        has_turn = True
    finally:
        if not has_turn:
            lane.give_back(place)


def _key_of(scope: HTTPScope) -> bytes:
    """A digest of the key that a request brings, NOBODY's without one: keys themselves are not kept.

    The key is cut out as `bearer` does it, so that one key is one holder however its header is written.
    """
    given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    key = given.decode("latin-1").partition(" ")[2].strip()
    return hashlib.blake2b(key.encode(), digest_size=16).digest() if key else NOBODY


def _request_id(scope: HTTPScope) -> str:
    """The caller's own id when it is a harmless one, else a new one."""
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return given.decode("ascii") if _GIVEN_ID.fullmatch(given) else uuid4().hex
