"""The outermost part of the surface: every request gets an id, a place, a clock and a count."""

import re
from time import perf_counter
from typing import Final
from uuid import uuid4

from litestar.enums import ScopeType
from litestar.response.base import ASGIResponse
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from msgspec import json
from structlog.contextvars import bound_contextvars

from service.errors import Unavailable
from service.surfaces.http.metrics import UNMATCHED, Metrics
from service.surfaces.http.problems import PROBLEM_JSON, REQUEST_ID, headers_of, problem_of

CAPACITY: Final = 256  # requests answered at once; more would only wait for the same database connections
_GIVEN_ID: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")
_ALWAYS: Final = ("/health/", "/metrics")  # answered even when the service is full


class Gate:
    """Wraps the application. An ASGI app itself."""

    def __init__(self, app: ASGIApp, metrics: Metrics, capacity: int = CAPACITY) -> None:
        self._app = app
        self._metrics = metrics
        self._capacity = capacity
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; what is no HTTP request passes untouched."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        passage = _Passage(send, request_id)
        with bound_contextvars(**{REQUEST_ID: request_id}), self._metrics.in_flight.track_inprogress():
            try:
                await self._enter(scope, receive, passage.send)
            finally:
                route = str(scope.get("path_template") or UNMATCHED)
                self._metrics.answered(scope["method"], route, passage.status, passage.seconds)

    async def _enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._inside >= self._capacity and not scope["path"].startswith(_ALWAYS):
            await _full()(scope, receive, send)
            return
        self._inside += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._inside -= 1


class _Passage:
    """One answer on its way out: its headers are completed, its status and its time noted."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id
        self._began = perf_counter()
        self.status = 500  # an answer that never began

    @property
    def seconds(self) -> float:
        """The time since the request came."""
        return perf_counter() - self._began

    async def send(self, message: Message) -> None:
        """Pass a message on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [
                *message["headers"],
                (b"x-request-id", self._request_id.encode()),
                (b"server-timing", f"total;dur={self.seconds * 1000:.2f}".encode()),
                (b"x-content-type-options", b"nosniff"),
            ]
        await self._send(message)


def _request_id(scope: Scope) -> str:
    """The caller's own id when it is a harmless one, else a new one."""
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return given.decode("ascii") if _GIVEN_ID.fullmatch(given) else uuid4().hex


def _full() -> ASGIResponse:
    error = Unavailable("the service is answering as many requests as it can", retry_after=1)
    return ASGIResponse(
        body=json.encode(problem_of(error)),
        status_code=503,
        media_type=PROBLEM_JSON,
        headers=headers_of(error),
    )
