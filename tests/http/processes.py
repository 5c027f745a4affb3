"""Servers of their own processes, reached over loopback."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0


@contextmanager
def served(data_dir: Path, hash_seed: int = 0, **variables: str) -> Iterator[httpx.Client]:
    """A client to a server that runs in a new process until the block ends."""
    environment: Mapping[str, str] = {
        **os.environ,  # noqa: TID251 - the server's own process reads it
        "CITEWELL_DATA_DIR": str(data_dir),
        "PYTHONHASHSEED": str(hash_seed),
        **{f"CITEWELL_{name.upper()}": value for name, value in variables.items()},
    }
    command = [sys.executable, "-W", "error::DeprecationWarning:service", "-m", "tests.http.serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=ROOT, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            assert port, "the server ended before it listened"
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
                yield client
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
