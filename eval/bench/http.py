"""What HTTP adds to the use case: the same queries in process and over a loopback socket, in one run.

    python -m eval.bench.http --data FOLDER

FOLDER is one that `eval.bench.lexical --keep` made. The client keeps its connection, as callers do.
"""

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

import httpx

from eval.bench.corpus import queries
from eval.bench.lexical import report
from service.bootstrap import application
from service.model import DEFAULT_WORKSPACE
from service.search.request import ByQuery, RetrieveOptions
from service.settings import Settings

ROUNDS = 3


def free_port() -> int:
    """A port nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


async def in_process(folder: Path, asked: list[str]) -> list[float]:
    """Seconds of each query in the use case, the median of the rounds."""
    async with application(Settings(data_dir=folder)) as app:
        rounds = []
        for _ in range(ROUNDS + 1):
            seconds = []
            for text in asked:
                started = time.perf_counter()
                await app.retriever.retrieve(ByQuery(text), RetrieveOptions(DEFAULT_WORKSPACE))
                seconds.append(time.perf_counter() - started)
            rounds.append(seconds)
    return [statistics.median(each) for each in zip(*rounds[1:], strict=True)]


def over_http(folder: Path, asked: list[str]) -> list[float]:
    """Seconds of each query over HTTP, the median of the rounds."""
    port = free_port()
    command = [
        sys.executable,
        "-c",
        "from service.surfaces.cli import main; main()",
        "serve",
        "--port",
        str(port),
    ]
    environment = {**os.environ, "CITEWELL_DATA_DIR": str(folder)}  # noqa: TID251 - for the child
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as server:  # noqa: S603
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30.0, trust_env=False) as client:
                _wait(client)
                rounds = [_round(client, asked) for _ in range(ROUNDS + 1)]
        finally:
            server.terminate()
    return [statistics.median(each) for each in zip(*rounds[1:], strict=True)]


def _wait(client: httpx.Client) -> None:
    for _ in range(600):
        try:
            if client.get("/health/ready").status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise SystemExit("the server never became ready")


def _round(client: httpx.Client, asked: list[str]) -> list[float]:
    seconds = []
    for text in asked:
        started = time.perf_counter()
        client.post("/v1/retrieve", json={"query": text}).raise_for_status()
        seconds.append(time.perf_counter() - started)
    return seconds


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=11)
    arguments = parser.parse_args()
    asked = queries(300, arguments.seed)
    inside = asyncio.run(in_process(arguments.data, asked))
    outside = over_http(arguments.data, asked)
    report("use case, in process", inside)
    report("over HTTP, loopback", outside)
    added = sorted(out - ins for out, ins in zip(outside, inside, strict=True))
    print(f"added by HTTP and its client: p50 {added[len(added) // 2] * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
