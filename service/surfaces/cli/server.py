"""The server's life: how it begins to stop, how long what is open may go on, and what a second signal does."""

import gc
import math
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Final

import uvicorn

if TYPE_CHECKING:
    from litestar.types import ASGIApp

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
ANSWER_S: Final = 1  # beyond the time to drain, for answers that say that the time is over


Leave = Callable[[float], None]  # told on the event loop how many seconds are left


class GracefulServer(uvicorn.Server):
    """Stops on the first signal when what is open has ended, on the second one at once.

    `leave` is told when the listening socket has been closed to newcomers, at most 0.1 s after the signal.
    """

    def __init__(self, app: "ASGIApp", leave: Leave, drain_seconds: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=math.ceil(drain_seconds) + ANSWER_S,
            )
        )
        self._leave = leave
        self._drain_seconds = drain_seconds

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes. Being stopped by one is success: it is not raised again."""
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            super().run(sockets)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the application. What it is made of stays: full collections need not go through it again."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ask for a stop. The next signal ends the process as if it had no handler: nothing stored is lost."""
        super().handle_exit(sig, frame)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the door, tell the application, wait for what is open, close the application."""
        self._leave(self._drain_seconds)
        await super().shutdown(sockets)
