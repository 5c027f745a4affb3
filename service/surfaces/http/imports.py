"""The import route: a stream in and a stream out, both at once."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from litestar import Request, post
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIType, Operation, RequestBody, Schema
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from service.surfaces.http.access import WRITES, Asking
from service.surfaces.http.importing import Importer
from service.surfaces.http.outbox import Outbox
from service.surfaces.http.parts import App
from service.surfaces.http.problems import responses
from service.surfaces.http.requests import IDENTITY, UnsupportedMediaType
from service.surfaces.http.unpacking import Gunzip, Packing, Unpacked

NDJSON: Final = "application/x-ndjson"
PAUSE_S: Final = 0.25  # a sender silent for so long is told what became of what it sent
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
    return ImportResponse(importer, Gunzip() if encoding in _GZIP else Unpacked())


class ImportResponse(ASGIResponse):
    """Stores while it receives, and sends results while it does both.

    A client may send everything before it reads anything, so results never wait for the client: what it does
    not read stays in the outbox.
    """

    _should_set_content_length = False

    def __init__(self, importer: Importer, packing: Packing) -> None:
        super().__init__(status_code=200, media_type=NDJSON)
        self._importer = importer
        self._packing = packing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        await self.start_response(send)
        outbox = Outbox()
        storing = asyncio.create_task(self._store(receive, outbox))
        try:
            while data := await outbox.take():
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await storing
        finally:
            storing.cancel()
            await asyncio.wait({storing})
            outbox.discard()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _store(self, receive: Receive, outbox: Outbox) -> None:
        try:
            async with (
                aclosing(_chunks(receive)) as chunks,
                aclosing(self._importer.run(chunks, self._packing)) as stored,
            ):
                async for results in stored:
                    outbox.put(results)
        finally:
            outbox.close()


async def _chunks(receive: Receive) -> AsyncGenerator[bytes, None]:
    """The body as it comes; an empty chunk when the sender pauses, the end when it goes away."""
    coming = asyncio.ensure_future(receive())
    try:
        while True:
            done, _ = await asyncio.wait({coming}, timeout=PAUSE_S)
            if not done:
                yield b""
                continue
            message = coming.result()
            if message["type"] != "http.request":
                return
            if message["body"]:
                yield message["body"]
            if not message.get("more_body", False):
                return
            coming = asyncio.ensure_future(receive())
    finally:
        coming.cancel()
