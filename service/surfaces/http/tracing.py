"""One span a request, in the caller's own trace where it sent one."""

from contextlib import ExitStack
from typing import Final

from litestar.datastructures import State
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bound_contextvars

from service.bootstrap import Application
from service.ports.tracing import UNTRACED, RequestSpan, Tracer
from service.surfaces.http.metrics import UNMATCHED

UNSEEN: Final = ("/health/", "/metrics")  # asked every few seconds: their spans would bury the others
_CARRIED: Final = (b"traceparent", b"tracestate")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})


class Traced:
    """Wraps the gate, so that waiting for a place is inside the request's span. An ASGI app itself."""

    def __init__(self, app: ASGIApp, state: State) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; what is no HTTP request passes untouched."""
        if scope["type"] != ScopeType.HTTP or scope["path"].startswith(UNSEEN):
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        with self._tracer().request(method, _carrier(scope)) as span, ExitStack() as bound:
            if span.trace_id is None:
                await self._app(scope, receive, send)
                return
            bound.enter_context(bound_contextvars(trace_id=span.trace_id))  # joins log lines to traces
            told = _Told(send)
            try:
                await self._app(scope, receive, told.send)
            finally:
                _tell(span, method, str(scope.get("path_template") or UNMATCHED), told)

    def _tracer(self) -> Tracer:
        """The application's; before it is open there is none."""
        application: Application | None = self._state.get("application")
        return UNTRACED if application is None else application.tracing.tracer


class _Told:
    """What an answer says of itself on its way out."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 500  # an answer that never began
        self.request_id = ""

    async def send(self, message: Message) -> None:
        """Pass a message on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = [value for name, value in message["headers"] if name.lower() == b"x-request-id"]
            self.request_id = given[0].decode("latin-1") if given else ""
        await self._send(message)


def _tell(span: RequestSpan, method: str, route: str, told: _Told) -> None:
    """The conventions' names. The path itself is left out: it holds ids."""
    span.call(f"{method} {route}")
    span.note("http.request.method", method)
    span.note("http.route", route)
    span.note("http.response.status_code", told.status)
    span.note("request_id", told.request_id)
    if told.status >= 500:
        span.fail(str(told.status))


def _carrier(scope: Scope) -> dict[str, str]:
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in scope["headers"]
        if name in _CARRIED
    }
