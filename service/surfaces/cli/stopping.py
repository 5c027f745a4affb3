"""Stopping long work between two batches instead of in the middle of one."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from service.surfaces.cli.terminal import tell

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopping_signals(stop: asyncio.Event) -> Iterator[None]:
    """Ctrl-C asks for a stop after the current batch; a second one stops at once."""
    loop = asyncio.get_running_loop()

    def ask() -> None:
        stop.set()
        tell("stopping after this batch; Ctrl-C again to stop at once")
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, ask)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
