"""Real servers over one data folder, killed as -9 does, and the index slot that each of them holds."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.http.processes import PATIENCE_S, ROOT


@dataclass(slots=True)
class Server:
    """A server of its own process, once it listens."""

    process: "subprocess.Popen[str]"
    client: httpx.Client

    @property
    def slots(self) -> list[str]:
        """The slots whose lock files it has open, those that were deleted among them (as ` (deleted)`)."""
        descriptors = Path(f"/proc/{self.process.pid}/fd").iterdir()
        targets = [str(descriptor.readlink()) for descriptor in descriptors if descriptor.is_symlink()]
        return sorted(
            target.split("/lexical/")[1].replace("/lock", "")
            for target in targets
            if "/lexical/slot-" in target and "/lock" in target
        )

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait(PATIENCE_S)


class Fleet:
    """The servers of one data folder."""

    def __init__(self, data_dir: Path, variables: Mapping[str, str]) -> None:
        self._data_dir = data_dir
        self._variables = {f"CITEWELL_{name.upper()}": value for name, value in variables.items()}
        self._processes: list[subprocess.Popen[str]] = []
        self._clients: list[httpx.Client] = []

    def start(self, count: int = 1) -> list[Server]:
        """So many servers, started at once, that all listen."""
        return [self._listening(process) for process in [self._begin() for _ in range(count)]]

    def end(self) -> None:
        """Kill those that are left."""
        for client in self._clients:
            client.close()
        for process in self._processes:
            process.kill()
            process.communicate()

    def _begin(self) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.http.serve"],
            env={**os.environ, "CITEWELL_DATA_DIR": str(self._data_dir), **self._variables},  # noqa: TID251
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        self._processes.append(process)
        return process

    def _listening(self, process: "subprocess.Popen[str]") -> Server:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, "the server ended before it listened"
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S)
        self._clients.append(client)
        return Server(process, client)


@contextmanager
def fleet(data_dir: Path, **variables: str) -> Iterator[Fleet]:
    """Servers over one data folder, all gone when the block ends."""
    servers = Fleet(data_dir, variables)
    try:
        yield servers
    finally:
        servers.end()
