"""A server past its capacity: how much it still answers, how fast, and what becomes of the rest.

    python -m eval.bench.load --data FOLDER [--seconds 15] [--json FILE]

FOLDER is one that `eval.bench.lexical --keep` made. A `citewell serve` of its own process is offered rising rates
until more is not answered (its capacity), then twice that rate. Requests are sent when they are due and timed from
then (`eval.bench.open_loop`). The client shares the machine, and so its cores, with the server: where that counts,
the answers a second of the server's own processor time say what being past capacity costs.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from eval.bench.corpus import queries
from eval.bench.http import free_port
from eval.bench.lexical import percentile
from eval.bench.open_loop import (
    LIVE_REQUEST,
    LOST,
    OK,
    Answered,
    Connections,
    Load,
    back_to_back,
    goodput,
    offer,
    retrieve_request,
)

Figures = dict[str, float]
CALLERS = 16
SHARES = (0.7, 0.85, 1.0, 1.15)  # of what callers back to back get: the rates at which capacity is sought
BUSY = 503
HEALTH_RATE = 20.0
START_PATIENCE = 600  # tenths of a second


@dataclass(frozen=True, slots=True)
class Plan:
    """How long a step takes, and how far past its capacity the server is driven in the end."""

    step_seconds: float = 2.0
    seconds: float = 15.0
    times: float = 2.0
    seed: int = 11


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    port: int
    process: psutil.Process

    def resident_mb(self) -> float:
        """Resident memory with all children, in megabytes."""
        family = [self.process, *self.process.children(recursive=True)]
        return sum(float(one.memory_info().rss) for one in family) / 1e6

    def cpu_seconds(self) -> float:
        """Processor time that the server itself has used."""
        used = self.process.cpu_times()
        return float(used.user + used.system)


@contextmanager
def serving(folder: Path, **variables: str) -> Iterator[Server]:
    """`citewell serve` over a folder, until the block ends."""
    port = free_port()
    command = [
        sys.executable,
        "-c",
        "from service.surfaces.cli import main; main()",
        "serve",
        "--port",
        str(port),
    ]
    environment = {
        **os.environ,  # noqa: TID251 - for the child
        "CITEWELL_DATA_DIR": str(folder),
        **{f"CITEWELL_{name.upper()}": value for name, value in variables.items()},
    }
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:  # noqa: S603
        try:
            asyncio.run(_until_ready(port))
            yield Server(port, psutil.Process(process.pid))
        finally:
            process.terminate()


async def _until_ready(port: int) -> None:
    connections = Connections(port)
    for _ in range(START_PATIENCE):
        if await connections.ask(b"GET /health/ready HTTP/1.1\r\nhost: localhost\r\n\r\n") == OK:
            await connections.close()
            return
        await asyncio.sleep(0.1)
    raise SystemExit("the server never became ready")


async def measure(server: Server, plan: Plan) -> dict[str, Figures]:
    """Capacity, then the behaviour past it."""
    payloads = [retrieve_request(text) for text in queries(400, plan.seed)]
    connections = Connections(server.port)
    try:
        await back_to_back(connections, CALLERS, Load(0.0, min(1.0, plan.step_seconds), payloads))  # warm
        found = await _capacity(server, connections, payloads, plan)
        rate = plan.times * found["capacity"]
        before, used = server.resident_mb(), server.cpu_seconds()
        load = Load(rate, plan.seconds, payloads, plan.seed)
        health = Load(HEALTH_RATE, plan.seconds, [LIVE_REQUEST], plan.seed + 1)
        checks = Connections(server.port)
        answered, live = await asyncio.gather(offer(connections, load), offer(checks, health))
        await checks.close()
        used = server.cpu_seconds() - used
        memory = {"start MB": before, "end MB": server.resident_mb()}
    finally:
        await connections.close()
    overload = _overload(answered, load, found["capacity"])
    overload["answers a CPU s / at capacity"] = (
        sum(a.status == OK for a in answered) / used / found["answers a CPU s"]
    )
    return {
        "capacity": found,
        "overload": overload,
        "health": _latencies(live) | {"share answered": _share(live, OK)},
        "memory": memory,
    }


async def _capacity(
    server: Server, connections: Connections, payloads: Sequence[bytes], plan: Plan
) -> Figures:
    """The most answers a second at any rate that was tried."""
    used = server.cpu_seconds()
    closed = await back_to_back(connections, CALLERS, Load(0.0, plan.step_seconds, payloads))
    used = server.cpu_seconds() - used
    figures = {"back to back": closed}
    for share in SHARES:
        load = Load(share * closed, plan.step_seconds, payloads, plan.seed)
        answered = await offer(connections, load)
        figures[f"offered {load.rate:.0f}/s"] = goodput(answered, load.seconds)
    figures["capacity"] = max(figures.values())
    figures["answers a CPU s"] = closed * plan.step_seconds / used
    return figures


def _overload(answered: Sequence[Answered], load: Load, capacity: float) -> Figures:
    statuses = Counter(one.status for one in answered)
    failed = sum(count for status, count in statuses.items() if status >= 500 and status != BUSY)
    good = goodput(answered, load.seconds)
    return {
        "offered/s": len(answered) / load.seconds,
        "goodput/s": good,
        "goodput / capacity": good / capacity,
        "share 200": _share(answered, OK),
        "share 503": _share(answered, BUSY),
        "other 5xx": failed,
        "lost": statuses[LOST],
        **_latencies([one for one in answered if one.status == OK]),
        **{
            f"503 {name}": value
            for name, value in _latencies([a for a in answered if a.status == BUSY]).items()
        },
    }


def _share(answered: Sequence[Answered], status: int) -> float:
    return sum(one.status == status for one in answered) / max(1, len(answered))


def _latencies(answered: Sequence[Answered]) -> Figures:
    seconds = [one.seconds for one in answered] or [0.0]
    return {"p50 ms": percentile(seconds, 0.5) * 1e3, "p99 ms": percentile(seconds, 0.99) * 1e3}


def run(folder: Path, plan: Plan, **variables: str) -> dict[str, Figures]:
    """The whole benchmark, with settings of the server by name."""
    with serving(folder, **variables) as server:
        return asyncio.run(measure(server, plan))


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--step", type=float, default=2.0)
    parser.add_argument("--times", type=float, default=2.0)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a server setting")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    plan = Plan(arguments.step, arguments.seconds, arguments.times)
    print(f"{psutil.cpu_count()} cores; load {psutil.getloadavg()[0]:.1f}")
    figures = run(arguments.data, plan, **dict(one.split("=", 1) for one in arguments.set))
    for group, values in figures.items():
        print(group)
        for name, value in values.items():
            print(f"  {name:30} {value:10.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2), "utf-8")


if __name__ == "__main__":
    main()
