"""A real server on the test's own event loop, over a real application with some routes that wait to be told."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import httpx
import uvicorn
from litestar import Litestar, get, post
from litestar.params import FromPath, RawBody
from sqlalchemy import text

from service.adapters.sql.engine import begin
from service.bootstrap import Application
from service.model import DEFAULT_WORKSPACE
from service.settings import Settings
from service.surfaces.captures import read_capture
from service.surfaces.http.access import OPEN
from service.surfaces.http.app import create_app
from service.surfaces.http.gate import Gate
from service.surfaces.wire import decode_capture

PATIENCE_S = 30.0
RAN_ON = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 1500000) SELECT sum(n) FROM c"


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - a counter tells nobody when it changes
            await asyncio.sleep(0.01)


@dataclass(slots=True)
class Listening:
    """A server, a client to it, and what its waiting routes wait for."""

    app: Litestar
    client: httpx.AsyncClient
    port: int
    go_on: asyncio.Event
    begun: list[str] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    @property
    def gate(self) -> Gate:
        """The gate of the application."""
        gate: Gate = self.app.state.gate
        return gate

    @property
    def application(self) -> Application:
        """The use cases of the application."""
        application: Application = self.app.state.application
        return application

    def hold(self, name: str) -> "asyncio.Task[httpx.Response]":
        """A request that is worked on, once it has its turn, until `go_on`."""
        return asyncio.create_task(self.client.get(f"/held/{name}"))

    async def until_begun(self, name: str) -> None:
        """Wait until a held request has its turn."""
        await until(lambda: name in self.begun)

    async def until_waiting(self, count: int) -> None:
        """Wait until so many requests wait for their turn."""
        await until(lambda: self.gate.waiting == count)

    async def until_idle(self) -> None:
        """Wait until no slot is taken and nobody waits."""
        await until(lambda: self.gate.working == self.gate.waiting == 0)

    async def raw(self, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection of its own on which these bytes were sent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        writer.write(request)
        return reader, writer


@asynccontextmanager
async def listening(settings: Settings) -> AsyncIterator[Listening]:
    """Serve until the block ends."""
    app = create_app(settings)
    go_on, begun = asyncio.Event(), list[str]()
    _add_routes(app, go_on, begun)
    with socket.create_server(("127.0.0.1", 0)) as door:
        port: int = door.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=5))
        serving = asyncio.create_task(server._serve([door]))
        base = f"http://127.0.0.1:{port}"
        limits = httpx.Limits(max_connections=1_000, max_keepalive_connections=0)
        async with httpx.AsyncClient(
            base_url=base, timeout=PATIENCE_S, limits=limits, trust_env=False
        ) as client:
            while not server.started:
                assert not serving.done()
                await asyncio.sleep(0.01)
            listening = Listening(app, client, port, go_on, begun)
            try:
                yield listening
            finally:
                go_on.set()
                await _close(listening.writers)
                server.should_exit = True
                await serving


async def _close(writers: list[asyncio.StreamWriter]) -> None:
    for writer in writers:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def _add_routes(app: Litestar, go_on: asyncio.Event, begun: list[str]) -> None:
    @get("/held/{name:str}", opt=OPEN)
    async def held(name: FromPath[str]) -> str:
        begun.append(name)
        await go_on.wait()
        return name

    @get("/slow-statement", opt=OPEN)
    async def slow_statement() -> str:
        """A statement that takes far longer than any test's deadline, on a connection for reads."""
        application: Application = app.state.application
        engine = application.store.engines.read
        statement = RAN_ON if engine.dialect.name == "sqlite" else "SELECT pg_sleep(20)"
        async with begin(engine) as connection:
            await connection.execute(text(statement))
        return "done"

    @post("/stored-and-stuck", opt=OPEN)
    async def stored_and_stuck(body: RawBody) -> str:
        """Stores a capture, and never answers."""
        application: Application = app.state.application
        capture = read_capture(decode_capture(body), application.documents)
        await application.capturing.capture(DEFAULT_WORKSPACE, capture)
        await asyncio.Event().wait()
        return "never"

    for route in (held, slow_statement, stored_and_stuck):
        app.register(route)
