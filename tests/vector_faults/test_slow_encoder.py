"""Many queries at once and an encoder that takes half a second over each batch, in its own thread."""

import asyncio
import statistics
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.vector_faults.conftest import Stored
from tests.vector_faults.servers import FLAG_ON, MANY_QUERIES, VECTORS_ON, Answered, Server, served

pytestmark = pytest.mark.anyio

ENCODE_S = 0.5
ONE_BY_ONE_S = ENCODE_S * len(MANY_QUERIES)
FEWEST_LOOKS = 5  # at health, for a median to say something


@asynccontextmanager
async def slow_server(stored: Stored, home: Path, budget: float) -> AsyncIterator[Server]:
    """A server whose vectors are ready and whose queries are slow."""
    variables = {**VECTORS_ON, **FLAG_ON, "CITEWELL_VECTOR_BUDGET": str(budget)}
    async with served(stored.copy(home), variables, encode_s=ENCODE_S) as server:
        await server.settled()
        yield server


@asynccontextmanager
async def health_watched(server: Server) -> AsyncIterator[list[float]]:
    """The seconds that each look at `/health/live` took: one after the other, in a thread, all along."""
    took: list[float] = []
    done = threading.Event()

    def look_on() -> None:
        with httpx.Client(base_url=server.client.base_url, timeout=60.0) as client:
            while not done.is_set() or len(took) < FEWEST_LOOKS:
                began = time.perf_counter()
                assert client.get("/health/live").status_code == 200
                took.append(time.perf_counter() - began)
                done.wait(0.01)

    looking = asyncio.create_task(asyncio.to_thread(look_on))
    try:
        yield took
    finally:
        done.set()
        await looking


async def flooded(server: Server) -> tuple[dict[str, Answered], float]:
    """Every query at once: the answers, and the seconds until the last of them."""
    began = time.perf_counter()
    answers = await asyncio.gather(*(server.ask(query) for query in MANY_QUERIES))
    return dict(zip(MANY_QUERIES, answers, strict=True)), time.perf_counter() - began


async def test_thirty_queries_with_too_little_time(stored: Stored, home: Path) -> None:
    """C27, U20: with a budget below the encoder's half second 30 queries at once are all answered lexically, to
    the byte, with encode_timeout, and health answers meanwhile as if nothing was being encoded.
    """
    async with slow_server(stored, home, budget=0.25) as server:
        async with health_watched(server) as took:
            answers, seconds = await flooded(server)
        assert {answer.reason for answer in answers.values()} == {"encode_timeout"}
        assert all(answer.kept == stored.lexical[query].kept for query, answer in answers.items())
        assert seconds < ONE_BY_ONE_S
        assert statistics.median(took) < 0.05


async def test_thirty_queries_with_time_enough(stored: Stored, home: Path) -> None:
    """C27, U20: with time enough all 30 are answered by both arms, encoded in batches and not one by one, and
    health answers while encoding runs.
    """
    async with slow_server(stored, home, budget=ONE_BY_ONE_S) as server:
        async with health_watched(server) as took:
            answers, seconds = await flooded(server)
        assert all(answer.ran for answer in answers.values())
        assert seconds < ONE_BY_ONE_S
        assert len(took) >= FEWEST_LOOKS
        assert statistics.median(took) < 0.05


async def test_thirty_queries_of_which_some_have_time(stored: Stored, home: Path) -> None:
    """C27, U20: with a budget of a batch or two each answer is a hybrid one or says encode_timeout."""
    async with slow_server(stored, home, budget=0.8) as server:
        async with health_watched(server) as took:
            answers, seconds = await flooded(server)
        for query, answer in answers.items():
            assert answer.ran or answer.reason == "encode_timeout"
            assert answer.ran or answer.kept == stored.lexical[query].kept
        assert seconds < ONE_BY_ONE_S
        assert statistics.median(took) < 0.05
