"""An open loop of requests: they are sent when they are due, whether or not earlier ones were answered.

A latency counts from the moment at which the request was due, so a server that stalls is charged for every
request that had to wait meanwhile, and not only for the one it was stalled by.
"""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

MOST_CONNECTIONS = 2_000
ANSWER_PATIENCE_S = 60.0
OK = 200
LOST = 0  # the status of a request whose connection broke or that was not answered at all


@dataclass(frozen=True, slots=True)
class Answered:
    """One request: when it was due (seconds from the start), how long it took from then, and its status."""

    due: float
    seconds: float
    status: int


@dataclass(frozen=True, slots=True)
class Load:
    """Requests at a mean rate (Poisson arrivals) for some seconds; they take turns with the payloads."""

    rate: float
    seconds: float
    payloads: Sequence[bytes]
    seed: int = 1


def retrieve_request(query: str) -> bytes:
    """A retrieval as it goes over the wire."""
    body = json.dumps({"query": query}).encode()
    head = f"host: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return f"POST /v1/retrieve HTTP/1.1\r\n{head}\r\n\r\n".encode() + body


LIVE_REQUEST = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Asked(Protocol):
    """Whoever is asked."""

    async def ask(self, payload: bytes) -> int:
        """The status of the answer; LOST where none came."""
        ...


class Connections:
    """Kept connections to one server; a new one where none is idle. Implements Asked."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._open = asyncio.Semaphore(MOST_CONNECTIONS)

    async def ask(self, payload: bytes) -> int:
        """Send a request; the status of the answer, LOST where none came."""
        async with self._open:
            try:
                async with asyncio.timeout(ANSWER_PATIENCE_S):
                    return await self._ask(payload)
            except (OSError, EOFError, TimeoutError):
                return LOST

    async def _ask(self, payload: bytes) -> int:
        if self._idle:
            with suppress(
                OSError, EOFError
            ):  # a kept connection may have been closed meanwhile: a new one is not
                return await self._exchange(*self._idle.pop(), payload)
        return await self._exchange(*await asyncio.open_connection("127.0.0.1", self._port), payload)

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, payload: bytes
    ) -> int:
        try:
            writer.write(payload)
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            size = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
            await reader.readexactly(size)
        except BaseException:
            writer.close()
            raise
        self._idle.append((reader, writer))
        return int(lines[0].split()[1])

    async def close(self) -> None:
        """Close what is idle."""
        for _, writer in self._idle:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def offer(connections: Asked, load: Load) -> list[Answered]:
    """Every request of the load with what became of it."""
    gaps = random.Random(load.seed)
    answered: list[Answered] = []
    began = time.perf_counter()

    async def one(due: float, payload: bytes) -> None:
        status = await connections.ask(payload)
        answered.append(Answered(due, time.perf_counter() - began - due, status))

    async with asyncio.TaskGroup() as tasks:
        due, number = gaps.expovariate(load.rate), 0
        while due < load.seconds:
            await asyncio.sleep(max(0.0, began + due - time.perf_counter()))
            tasks.create_task(one(due, load.payloads[number % len(load.payloads)]))
            due, number = due + gaps.expovariate(load.rate), number + 1
    return answered


async def back_to_back(connections: Asked, callers: int, load: Load) -> float:
    """Answers with 200 a second when each of some callers asks again as soon as it is answered."""
    until, statuses = time.perf_counter() + load.seconds, Counter[int]()

    async def caller(number: int) -> None:
        while time.perf_counter() < until:
            statuses[await connections.ask(load.payloads[number % len(load.payloads)])] += 1
            number += callers

    await asyncio.gather(*(caller(number) for number in range(callers)))
    return statuses[OK] / load.seconds


def goodput(answered: Sequence[Answered], seconds: float) -> float:
    """Answers with 200 a second, those that came within the first `seconds`."""
    return sum(one.status == OK and one.due + one.seconds <= seconds for one in answered) / seconds
