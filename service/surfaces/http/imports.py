"""The import route: a stream in and a stream out, both at once."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

from litestar import Request, post
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIType, Operation, RequestBody, Schema
from litestar.response.base import ASGIResponse
from litestar.types import HTTPReceiveMessage, Receive, Scope, Send, WebSocketReceiveMessage

from service.errors import DeadlineExceeded, Unavailable
from service.surfaces.http.access import WRITES, Asking
from service.surfaces.http.importing import Importer
from service.surfaces.http.leaving import Leaving
from service.surfaces.http.outbox import Outbox
from service.surfaces.http.parts import App
from service.surfaces.http.problems import responses
from service.surfaces.http.requests import IDENTITY, UnsupportedMediaType
from service.surfaces.http.unpacking import Gunzip, Packing, Unpacked

NDJSON: Final = "application/x-ndjson"
PAUSE_S: Final = 0.25  # a sender silent for so long is told what became of what it sent
IDLE_S: Final = (
    300.0  # a sender without a line for so long has nothing to say, and would hold its slot for ever
)
UNREAD_S: Final = 60.0  # as long may a client that has sent everything leave a piece of its results unread
LINGER_S: Final = 0.5  # of the time to drain, kept for the end of the answer
_STOPPING: Final = "the service is stopping: from this line on nothing was stored; send it again"
_SILENT: Final = "no line ended for {:g} seconds: from this line on nothing was stored"
_GZIP: Final = ("gzip", "x-gzip")


@dataclass
class ImportOperation(Operation):
    """The request body, which no `data` parameter states since it is read as a stream."""

    def __post_init__(self) -> None:
        """State the body."""
        line = Schema(
            type=OpenAPIType.STRING, description="One capture in JSON a line; blank lines are skipped."
        )
        self.request_body = RequestBody(required=False, content={NDJSON: OpenAPIMediaType(schema=line)})


@post(
    "/v1/items/import",
    status_code=200,
    tags=["items"],
    summary="Store many captures",
    media_type=NDJSON,
    operation_class=ImportOperation,
    opt=WRITES,
    responses={
        200: ResponseSpec(
            str,
            description="A StoredLine or a RefusedLine for every line that is not blank, in order",
            media_type=NDJSON,
            generate_examples=False,
        ),
        **responses(415),
    },
)
async def import_items(request: Request[None, None, State], application: App, access: Asking) -> ASGIResponse:
    """Store captures, one a line, some hundred in a transaction. A line that cannot be stored stops no other.

    `Content-Encoding: gzip` is understood. Repeating an import changes nothing.
    """
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in IDENTITY + _GZIP:
        raise UnsupportedMediaType("an import is sent as it is or packed with gzip")
    if request.headers.get("content-type", "").startswith("multipart/"):
        raise UnsupportedMediaType(f"an import is sent as {NDJSON}, not as a form")
    importer = Importer(application, access.workspace)
    leaving: Leaving = request.app.state.leaving
    return ImportResponse(importer, Gunzip() if encoding in _GZIP else Unpacked(), leaving)


class ImportResponse(ASGIResponse):
    """Stores while it receives, and sends results while it does both.

    A client may send everything before it reads anything, so results never wait for the client: what it does
    not read stays in the outbox. When the process is on its way out the import ends after the lines that have
    come: each is told, and the last result says that the rest was not stored.
    """

    _should_set_content_length = False

    def __init__(self, importer: Importer, packing: Packing, leaving: Leaving) -> None:
        super().__init__(status_code=200, media_type=NDJSON)
        self._importer = importer
        self._packing = packing
        self._leaving = leaving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        await self.start_response(send)
        outbox, body = Outbox(), _Body(receive, self._leaving)
        storing = asyncio.create_task(self._store(body, outbox))
        try:
            async with asyncio.timeout(None) as patience:
                body.on_end(lambda: _extend(patience))
                while data := await outbox.take():
                    await send({"type": "http.response.body", "body": data, "more_body": True})
                    if body.has_ended:
                        _extend(patience)
            await storing
        except TimeoutError:
            return  # the server closes the connection, since the answer is not complete
        finally:
            storing.cancel()
            await asyncio.wait({storing})
            outbox.discard()
        await body.read_out()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _store(self, body: "_Body", outbox: Outbox) -> None:
        try:
            async with (
                aclosing(body.chunks()) as chunks,
                aclosing(self._importer.run(chunks, self._packing, body.progressed)) as stored,
            ):
                async for results in stored:
                    outbox.put(results)
        finally:
            outbox.close()


def _extend(patience: asyncio.Timeout) -> None:
    """The client has UNREAD_S from now to read a piece of its results."""
    if not patience.expired():
        patience.reschedule(asyncio.get_running_loop().time() + UNREAD_S)


class _Body:
    """What the client sends, until it has sent everything, goes away, falls silent, or the process has to stop."""

    def __init__(self, receive: Receive, leaving: Leaving) -> None:
        self._receive = receive
        self._leaving = leaving
        self._is_complete = False
        self._then: Callable[[], None] = lambda: None
        self._progress_at = 0.0
        self.has_ended = False  # no chunk will come any more

    def progressed(self) -> None:
        """A line that is not blank has come: the sender has IDLE_S for the next one."""
        self._progress_at = asyncio.get_running_loop().time()

    def on_end(self, then: Callable[[], None]) -> None:
        """Call this when no chunk will come any more."""
        self._then = then

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes; an empty chunk when the sender pauses, the end when it goes away.

        Raises Unavailable when the process is on its way out, DeadlineExceeded after IDLE_S without a line.
        """
        stopping = asyncio.create_task(self._leaving.wait())
        try:
            async for chunk in self._until(stopping):
                yield chunk
        finally:
            stopping.cancel()
            self.has_ended = True
            self._then()

    async def _until(self, stopping: "asyncio.Task[None]") -> AsyncGenerator[bytes, None]:
        coming = asyncio.ensure_future(self._receive())
        self.progressed()
        try:
            while not self._is_complete:
                await asyncio.wait((coming, stopping), timeout=PAUSE_S, return_when=asyncio.FIRST_COMPLETED)
                if stopping.done():
                    raise Unavailable(_STOPPING)
                if asyncio.get_running_loop().time() - self._progress_at >= IDLE_S:
                    raise DeadlineExceeded(_SILENT.format(IDLE_S))
                if not coming.done():
                    yield b""
                    continue
                body = self._opened(coming.result())
                if not self._is_complete:
                    coming = asyncio.ensure_future(self._receive())
                if body:
                    yield body
        finally:
            if not coming.cancel() and not coming.cancelled():
                self._opened(coming.result())

    def _opened(self, message: HTTPReceiveMessage | WebSocketReceiveMessage) -> bytes:
        """A message's bytes; it is known then whether it was the last one."""
        if message["type"] != "http.request":
            self._is_complete = True
            return b""
        self._is_complete = not message.get("more_body", False)
        return message["body"]

    async def read_out(self) -> None:
        """Throw away what a client still sends while there is time, or it would not read its results.

        A connection that is closed on bytes that nobody read is reset, and results on their way are lost.
        """
        if self._is_complete:
            return
        left = self._leaving.until - LINGER_S - asyncio.get_running_loop().time()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, left) if math.isfinite(left) else UNREAD_S):
                while not self._is_complete:
                    self._opened(await self._receive())
