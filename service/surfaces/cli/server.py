"""The server's life: the door opens before the parts do, and stays open while what is inside finishes."""

import asyncio
import gc
import math
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Final

import uvicorn

from service.surfaces.cli.connection import BoundedConnection, ConnectionBounds, Crowd

if TYPE_CHECKING:
    from litestar.types import ASGIApp

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
ANSWER_S: Final = 1  # beyond the time to drain, for answers that say that the time is over
BACKLOG: Final = 2048
TICK_S: Final = 0.1
SWEEP_TICKS: Final = 10


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told of the two turns of a server's life, on the event loop.

    `ready` when the application is open, `leave` how many seconds are left when it is to stop.
    """

    ready: Callable[[], None]
    leave: Callable[[float], None]


@dataclass(frozen=True, slots=True)
class ServerBounds:
    """How long open requests may go on after the signal to stop, and what connections may cost."""

    drain_seconds: float
    connections: ConnectionBounds


class GracefulServer(uvicorn.Server):
    """Listens from the beginning to the end; the application itself says what it is not ready for.

    It stops on the first signal when what was open then has ended, on the second one at once. The application is
    told at most 0.1 s after the signal, and is to refuse from then on what comes.
    """

    def __init__(self, app: "ASGIApp", watch: Watch, bounds: ServerBounds) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                interface="asgi3",
                lifespan="on",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=math.ceil(bounds.drain_seconds) + ANSWER_S,
            )
        )
        self.server_state = self._crowd = Crowd(bounds.connections)
        self._watch = watch
        self._drain_seconds = bounds.drain_seconds

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes. Being stopped by one is success: it is not raised again."""
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            super().run(sockets)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Let people in, then open the application; when it does not open, stop.

        What it is made of stays: full collections need not go through it again.
        """
        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(self._connection, sock=door, backlog=BACKLOG) for door in sockets or ()
        ]
        opening = asyncio.create_task(self.lifespan.startup())
        ticks = 0
        while not opening.done():
            await self.on_tick(ticks)
            await asyncio.wait({opening}, timeout=TICK_S)
            ticks += 1
        opening.result()
        if self.lifespan.should_exit:
            self._close_doors(sockets)
            self.should_exit = True
            return
        gc.collect()
        gc.freeze()
        self.started = True
        self._watch.ready()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: whether to stop. Once a second connections that are overdue are ended."""
        if counter % SWEEP_TICKS == 0:
            self._crowd.sweep(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ask for a stop. The next signal ends the process as if it had no handler: nothing stored is lost."""
        super().handle_exit(sig, frame)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell the application, wait for what is open, close the door, close the application."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._drain_seconds + ANSWER_S
        self._watch.leave(self._drain_seconds)
        for connection in self._crowd.known():
            connection.shutdown()  # idle ones go, the others with their answer
        inside = self._crowd.owed()
        ticks = 0
        while inside & self.server_state.connections and loop.time() < until:
            await self.on_tick(ticks)
            await asyncio.sleep(TICK_S)
            ticks += 1
        self.config.timeout_graceful_shutdown = max(ANSWER_S, math.ceil(until - loop.time()))
        await super().shutdown(sockets)

    def _connection(self) -> BoundedConnection:
        return BoundedConnection(self.config, self._crowd, self.lifespan.state)

    def _close_doors(self, sockets: list[socket.socket] | None) -> None:
        for server in self.servers:
            server.close()
        for door in sockets or ():
            door.close()
