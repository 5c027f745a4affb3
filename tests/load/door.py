"""The real server on the test's own event loop, with bounds that a test can reach."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from litestar import Litestar

from service.surfaces.cli.connection import ConnectionBounds, Crowd
from service.surfaces.cli.server import GracefulServer, ServerBounds, Watch

PATIENCE_S = 30.0
LIVE = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"
READY = b"GET /health/ready HTTP/1.1\r\nhost: localhost\r\n\r\n"
VOCABULARY = b"GET /v1/vocabulary HTTP/1.1\r\nhost: localhost\r\n\r\n"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class Door:
    """A server and how to come in."""

    server: GracefulServer
    port: int
    serving: "asyncio.Task[None]"
    opened: asyncio.Event
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def crowd(self) -> Crowd:
        """Who is inside."""
        return self.server._crowd

    async def connect(self, sent: bytes = b"") -> Streams:
        """A connection on which something was sent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        writer.write(sent)
        return reader, writer

    async def asked(self, request: bytes) -> bytes:
        """The answer to a request on a connection of its own, head and body."""
        reader, writer = await self.connect(request)
        answer = await answered(reader)
        writer.close()
        return answer

    async def until_inside(self, count: int) -> None:
        """Wait until so many connections are there."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.crowd.connections) != count:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)


async def answered(reader: asyncio.StreamReader) -> bytes:
    """One answer, by its content length."""
    async with asyncio.timeout(PATIENCE_S):
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        size = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
        return head + await reader.readexactly(size)


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Everything until the other side closes, however it does."""
    received = b""
    async with asyncio.timeout(PATIENCE_S):
        with suppress(ConnectionError):
            while piece := await reader.read(65_536):
                received += piece
    return received


@asynccontextmanager
async def door(
    app: Litestar, connections: ConnectionBounds, drain_seconds: float = 5.0
) -> AsyncIterator[Door]:
    """Serve until the block ends. Nothing waits for the application to be open."""
    opened = asyncio.Event()
    watch = Watch(opened.set, app.state.leaving.begin)
    server = GracefulServer(app, watch, ServerBounds(drain_seconds, connections))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        serving = asyncio.create_task(server._serve([listening]))
        found = Door(server, port, serving, opened)
        try:
            yield found
        finally:
            server.should_exit = True
            for writer in found.writers:
                writer.close()
            await serving
