"""A child process on a socket, begun and ended in ways that survive any cancellation.

Not `asyncio.create_subprocess_exec`: cancelled at the wrong moment (Ctrl-C just then) it waits for ever for
pipes that were never connected. Starting takes a few milliseconds and happens in the event loop's own
thread, because the kernel ends the child when the *thread* that began it ends.
"""

import asyncio
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

import service
from service.adapters.vectors.qdrant_edge.launch import BuildOptions, ShardOptions, argument

_PACKAGE = "service.adapters.vectors.qdrant_edge"
_IMPORT_ROOT = Path(service.__file__).resolve().parents[1]
_GOODBYE_SECONDS = 5.0
_POLL_SECONDS = 0.005
_WORDS_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended: its exit code, or minus the signal's number; and its last words, for the log."""

    code: int
    words: str


class Child:
    """One process. `connection` is this side of its socket, for the caller to close."""

    def __init__(self, module: str, options: ShardOptions | BuildOptions) -> None:
        """Start it. Raises OSError when the system cannot."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - read, and closed, when the process has ended
        self.connection, theirs = socket.socketpair()
        try:
            told = msgspec.structs.replace(options, descriptor=theirs.fileno())
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, a module of this package
                [sys.executable, "-m", f"{_PACKAGE}.{module}", argument(told)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                cwd=_IMPORT_ROOT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C goes to the service, which ends its processes in order
            )
        except OSError:
            self.connection.close()
            self._errors.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    async def ended(self) -> Ending:
        """To be called when it has hung up: it has a while to end by itself, then it is killed."""
        patience = time.monotonic() + _GOODBYE_SECONDS
        while (code := self._process.poll()) is None:
            if time.monotonic() > patience:
                self._process.kill()
            await asyncio.sleep(_POLL_SECONDS)
        return Ending(code, self._last_words())

    def _last_words(self) -> str:
        if self._errors.closed:
            return ""
        with self._errors as errors:
            size = errors.seek(0, 2)
            errors.seek(max(0, size - _WORDS_KEPT))
            return errors.read().decode(errors="replace")
