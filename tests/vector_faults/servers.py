"""A server in a process of its own, asked over loopback and hurt from outside."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from service.core.breaker import LONGEST_PAUSE_S
from service.core.embedding_text import embedding_text
from tests.embeddings.hash_encoder import HashEncoder
from tests.http.calls import Json, document, part, read
from tests.vector_faults.orders import House, words
from tests.vectors.processes import running

ROOT = Path(__file__).parents[2]
PATIENCE_S = 90.0
VECTORS_ON = {
    "CITEWELL_VECTORS": "on",
    "CITEWELL_VECTOR_BUDGET": "30",  # seconds that no slow machine uses up
    "CITEWELL_REQUEST_DEADLINE": "60",
}
FLAG_ON = {"CITEWELL_FLAG_PROVIDER": "env", "CORPUS_HYBRID_RETRIEVAL": "on"}
QUERIES = tuple(f"{words(start, 3)} of a source" for start in range(12))
MANY_QUERIES = tuple(f"{words(start, 4)} and nothing else" for start in range(30))
SOURCES = 30


@dataclass(frozen=True, slots=True)
class Answered:
    """What a caller reads, `arms` apart, and how the vector arm ran."""

    kept: bytes
    passages: tuple[str, ...]
    state: str
    reason: str

    @property
    def ran(self) -> bool:
        """Whether vectors had a say."""
        return self.state == "ran"


@dataclass(frozen=True, slots=True)
class Server:
    """The process, and a client to it."""

    pid: int
    data_dir: Path
    client: httpx.AsyncClient

    def shard(self) -> psutil.Process | None:
        """The process that holds the vectors, if there is one now."""
        found = running("serve_shard", self.pid)
        return found[0] if found else None

    async def ask(self, query: str) -> Answered:
        """A free-text retrieval; no other status than 200 is an answer."""
        answer = await self.client.post("/v1/retrieve", json={"query": query, "limit": 20})
        assert answer.status_code == 200, answer.text[:500]
        body = read(answer)
        vector = part(body, "arms", "vector")
        del body["arms"]
        results = body["results"]
        assert isinstance(results, list)
        return Answered(
            json.dumps(body).encode(),
            tuple(result["passage_id"] for result in results),
            str(vector["state"]),
            str(vector["reason"]),
        )

    async def ask_all(self, queries: Sequence[str] = QUERIES) -> dict[str, Answered]:
        """Every query once."""
        return {query: await self.ask(query) for query in queries}

    async def store(self, *bodies: Json) -> None:
        """Capture one by one; each is accepted."""
        for body in bodies:
            answer = await self.client.post("/v1/items", json=body)
            assert answer.status_code in (200, 201), answer.text[:500]

    async def vectors(self) -> Json:
        """What readiness says of the vectors. Retrieval is always ready."""
        answer = await self.client.get("/health/ready")
        assert answer.status_code == 200, answer.text[:500]
        return part(read(answer), "parts", "vectors")

    async def metric(self, name: str) -> float | None:
        """A sample by its name, labels and all, or None when it is not shown."""
        page = (await self.client.get("/metrics")).text
        found = [line.split()[1] for line in page.splitlines() if line.startswith(f"{name} ")]
        return float(found[0]) if found else None

    async def settled(self) -> None:
        """Wait until the vectors are ready and nothing is pending."""
        await until(self._is_settled)

    async def _is_settled(self) -> bool:
        ready = await self.vectors() == {"state": "ready", "reason": None}
        return ready and await self.metric("citewell_vector_pending_changes") == 0.0


@asynccontextmanager
async def served(
    house: House, variables: dict[str, str], encode_s: float = 0.0, flag_fresh_s: float = 1.0
) -> AsyncIterator[Server]:
    """A server over a house until the block ends; what it says goes to a file beside the data folder."""
    data_dir = house.data_dir
    its_own = {"CITEWELL_DATA_DIR": str(data_dir), "CITEWELL_DATABASE_URL": house.database_url}
    environment = {**os.environ, **variables, **its_own}  # noqa: TID251 - the server's
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    told = [str(listening.fileno()), str(encode_s), str(flag_fresh_s)]
    command = [sys.executable, "-m", "tests.vector_faults.serve", *told]
    with listening, data_dir.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(  # noqa: ASYNC220 - starts in milliseconds, and ends when it is told to
            command, env=environment, cwd=ROOT, stdout=log, stderr=log, pass_fds=[listening.fileno()]
        )
    limits = httpx.Limits(max_connections=100)
    try:
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, limits=limits) as client:
            await client.get("/health/live")  # the socket takes it in before the server is there
            yield Server(process.pid, data_dir, client)
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, PATIENCE_S)


async def back(server: Server, hybrid: Mapping[str, Answered]) -> None:
    """Wait until the hybrid answers are what they were before the fault.

    It takes a second or two. A circuit that stays open for its longest pause after one short outage is
    too slow, on the slowest machine.
    """

    async def as_before() -> bool:
        return await server.ask_all() == hybrid

    await until(as_before, LONGEST_PAUSE_S - 5.0)


async def until(holds: Callable[[], Awaitable[bool]], patience: float = PATIENCE_S) -> None:
    """Wait until something holds."""
    give_up = time.monotonic() + patience
    while not await holds():
        assert time.monotonic() < give_up, "it never came to hold"
        await asyncio.sleep(0.02)


def source(number: int) -> Json:
    """A document of three passages, of one to three windows."""
    texts = [words(number * 5 + k, 5 + 24 * k) for k in range(3)]
    return document(f"s{number}", *texts, title=f"Source {number}")


def windows_of(body: Json) -> int:
    """How many points a document of this title has, all passages together."""
    passages, title = body["passages"], body["title"]
    assert isinstance(passages, list)
    encoder = HashEncoder()
    return sum(len(encoder.windows(embedding_text(str(title), None, one["text"]))) for one in passages)


CORPUS = tuple(source(number) for number in range(SOURCES))
