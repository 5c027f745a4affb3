"""One connection of the server: what it may cost before there is a request that the application could judge."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

import structlog
from msgspec import json
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from service.errors import CitewellError, DeadlineExceeded, InvalidInput, Overloaded, TooLarge, Unavailable

_log = structlog.get_logger(__name__)

PIECE: Final = 16 * 1024  # bytes that are read before what they were is looked at
MAX_PIPELINED: Final = 32  # requests that wait for the answers to those before them
LINGER_S: Final = 1.0  # in which what is still sent is dropped, so that the refusal is not lost to a reset,
LINGER_BYTES: Final = 4 * 1024 * 1024  # unless it is more than this
_REFUSALS: Final[Mapping[HTTPStatus, CitewellError]] = MappingProxyType(
    {
        HTTPStatus.BAD_REQUEST: InvalidInput("this is no HTTP request"),
        HTTPStatus.REQUEST_TIMEOUT: DeadlineExceeded("the request's headers were not complete in time"),
        HTTPStatus.REQUEST_URI_TOO_LONG: TooLarge("the address is longer than this service reads"),
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: TooLarge(
            "the headers are more, or longer, than this service reads"
        ),
        HTTPStatus.SERVICE_UNAVAILABLE: Overloaded("the service holds as many connections as it can"),
    }
)


@dataclass(frozen=True, slots=True)
class ConnectionBounds:
    """What connections may cost. `head_bytes` bound a request line with its headers, give or take PIECE.

    `head_seconds` go from the connection, or from the last answer, to the end of the next request's headers;
    `unread_seconds` are those in which a client that is not sending takes nothing of its answer.
    """

    connections: int
    head_bytes: int = 64 * 1024
    headers: int = 100
    head_seconds: float = 10.0
    unread_seconds: float = 30.0


class Crowd(ServerState):
    """The connections of a server, and which of them owe it a request, the longest waiting first."""

    def __init__(self, bounds: ConnectionBounds) -> None:
        super().__init__()
        self.bounds = bounds
        self.idle: dict[BoundedConnection, float] = {}  # since when, in the event loop's time
        self._unsent: dict[BoundedConnection, tuple[int, float]] = {}  # bytes that wait, and since when

    def has_room(self) -> bool:
        """Whether one more may stay. Room is made by sending away who has been idle for longest."""
        if len(self.connections) <= self.bounds.connections:
            return True
        longest = next(iter(self.idle), None)
        if longest is None:
            return False
        longest.leave()
        return True

    def known(self) -> list["BoundedConnection"]:
        """Those that have brought a request; from the others one may be on its way."""
        return [
            one for one in self.connections if isinstance(one, BoundedConnection) and one.cycle is not None
        ]

    def owed(self) -> set["BoundedConnection"]:
        """Those that wait for an answer, or have not taken all of it."""
        return {one for one in self.known() if not one.cycle.response_complete or one.untaken()}

    def sweep(self, now: float) -> None:
        """End what is overdue: requests that do not become complete, and answers that nobody reads."""
        overdue = [one for one, since in self.idle.items() if now - since > self.bounds.head_seconds]
        for one in overdue:
            one.time_out()
        before, self._unsent = self._unsent, {}
        for one in [one for one in self.connections if isinstance(one, BoundedConnection)]:
            left = one.untaken()
            if left:
                known, since = before.get(one, (left, now))
                self._unsent[one] = left, since if known == left else now
        limit = self.bounds.unread_seconds
        for one in [one for one, (_, since) in self._unsent.items() if now - since > limit]:
            one.transport.abort()


class TooMuch(Exception):
    """Raised inside the parser, which then stops."""


class BoundedConnection(HttpToolsProtocol):
    """A connection that ends when it costs more than its bounds, with a problem document where one can be sent."""

    def __init__(self, config: Config, crowd: Crowd, app_state: dict[str, object]) -> None:
        super().__init__(config, crowd, app_state, asyncio.get_running_loop())
        self._crowd = crowd
        self._bounds = crowd.bounds
        self._held = 0  # bytes since the last that were somebody's body, or since the last complete headers
        self._refusal = HTTPStatus.BAD_REQUEST
        self._is_refused = False
        self.url = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        """Somebody is here."""
        super().connection_made(transport)
        if self._crowd.has_room():
            self._expect_request()
        else:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Somebody is gone."""
        self._crowd.idle.pop(self, None)
        self.pipeline.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read in pieces, so that what is too much is seen before it is held."""
        for start in range(0, len(data), PIECE):
            if self._is_refused:
                self._drop(len(data) - start)
                return
            if self.transport.is_closing():
                return
            piece = data[start : start + PIECE] if len(data) > PIECE else data
            self._held += len(piece)
            super().data_received(piece)
            if self._held > self._bounds.head_bytes:
                self._refuse(self._what_is_long())

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which comes by the same way."""
        super().on_header(name, value)
        if len(self.headers) > self._bounds.headers:
            self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise TooMuch

    def on_headers_complete(self) -> None:
        """A request is here: from now on it is the application's to bound."""
        if len(self.pipeline) >= MAX_PIPELINED:
            raise TooMuch
        self._held = 0
        self._crowd.idle.pop(self, None)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Some of a body, which the application bounds."""
        self._held = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        """An answer is out."""
        is_last = not self.pipeline
        super().on_response_complete()
        if is_last and not self.transport.is_closing():
            self._expect_request()

    def send_400_response(self, msg: str) -> None:
        """What the parser cannot read, or what was too much for it."""
        self._refuse(self._refusal)

    def time_out(self) -> None:
        """The next request did not become complete in time."""
        if self._held:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:
            self.leave()

    def leave(self) -> None:
        """Go without a word: nothing is owed."""
        self._crowd.idle.pop(self, None)
        self.transport.close()

    def untaken(self) -> int:
        """Bytes of answers that wait to be taken; 0 as long as the client may be sending instead."""
        cycle: RequestResponseCycle | None = self.cycle
        is_sending = cycle is not None and cycle.more_body and not cycle.response_complete
        if is_sending and not self.transport.is_closing():
            return 0
        return self.transport.get_write_buffer_size()

    def _expect_request(self) -> None:
        self._crowd.idle.pop(self, None)  # so that the order stays that of the times
        self._crowd.idle[self] = self.loop.time()

    def _drop(self, count: int) -> None:
        """Take what comes after a refusal for nothing."""
        self._held += count
        if self._held > LINGER_BYTES:
            self.transport.close()

    def _what_is_long(self) -> HTTPStatus:
        if len(self.url) * 2 > self._bounds.head_bytes:
            return HTTPStatus.REQUEST_URI_TOO_LONG
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE

    def _refuse(self, status: HTTPStatus) -> None:
        """Tell and close; where an answer is on its way it would not be understood, so close only."""
        if self._is_refused:
            return
        self._is_refused = True
        _log.info("connection_refused", status=int(status))
        self._crowd.idle.pop(self, None)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self.transport.close()
            return
        self.transport.write(_refusal(status))
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            self.transport.close()  # there is no room to linger
            return
        self.transport.write_eof()
        self.loop.call_later(LINGER_S, self.transport.close)


def _refusal(status: HTTPStatus) -> bytes:
    error = _REFUSALS[status]
    body = json.encode(
        {
            "type": f"urn:citewell:problem:{error.code}",
            "title": error.title,
            "status": int(status),
            "detail": error.detail,
            "code": error.code,
        }
    )
    later = b"retry-after: 1\r\n" if isinstance(error, Unavailable) else b""
    return (
        b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode())
        + b"content-type: application/problem+json\r\ncontent-length: %d\r\n" % len(body)
        + later
        + b"connection: close\r\n\r\n"
        + body
    )
