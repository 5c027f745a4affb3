"""What a Qdrant server can do wrong: as a whole, or in what it answers to a search."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from qdrant_client import models

from tests.vector_faults.qdrant_server import Answering, Fault, QdrantServer, Search, refusal, well
from tests.vectors.fault_server import http

Misbehaving = Callable[[QdrantServer], AbstractAsyncContextManager[None]]
GHOSTS = 300  # more than a first round of candidates
TIMES = 3  # that each point comes


@asynccontextmanager
async def refusing(store: QdrantServer) -> AsyncIterator[None]:
    """Nobody listens."""
    store.refuse()
    try:
        yield
    finally:
        await store.listen()


def answering(fault: Fault) -> Misbehaving:
    """The fault meets every request; whoever still waits for an answer at its end is cut off."""

    @asynccontextmanager
    async def misbehaving(store: QdrantServer) -> AsyncIterator[None]:
        store.fault = fault
        try:
            yield
        finally:
            store.fault = well
            store.cut()

    return misbehaving


def lying(lie: Callable[[QdrantServer], Search]) -> Misbehaving:
    """Searches are answered otherwise."""

    @asynccontextmanager
    async def misbehaving(store: QdrantServer) -> AsyncIterator[None]:
        store.lie = lie(store)
        try:
            yield
        finally:
            store.lie = None

    return misbehaving


async def silent(asked: str, answer: Answering) -> bytes:
    """Requests are taken in and never answered."""
    await asyncio.Event().wait()
    return b""


def late(seconds: float) -> Fault:
    """Everything is answered well, after so many seconds."""

    async def answered_late(asked: str, answer: Answering) -> bytes:
        await asyncio.sleep(seconds)
        return await answer()

    return answered_late


def saying(status: int) -> Fault:
    """Everything is answered with an error."""

    async def refused(asked: str, answer: Answering) -> bytes:
        return refusal(status, "this server is not well")

    return refused


async def unreadable(asked: str, answer: Answering) -> bytes:
    """Searches are answered with half of an answer."""
    response = await answer()
    if not asked.endswith("/points/query"):
        return response
    _, _, body = response.partition(b"\r\n\r\n")
    return http(200, body[: len(body) // 2])


async def deaf(asked: str, answer: Answering) -> bytes:
    """Reads go well, and nothing is written or removed any more."""
    writes = asked.startswith("PUT") or asked.endswith("/points/delete")
    return refusal(503, "read only") if writes else await answer()


def no_numbers(store: QdrantServer) -> Search:
    """The last score of every answer is NaN."""

    async def search(collection: str, request: models.QueryRequest) -> list[models.ScoredPoint]:
        *found, last = await store.truth(collection, request)
        return [*found, last.model_copy(update={"score": float("nan")})]

    return search


def ghosts(store: QdrantServer) -> Search:
    """Nearer than any point are those of items, and of passages of an item, that nobody has ever stored."""
    invented = [
        {"item_id": "s0" if number % 2 else f"ghost{number}", "seq": 1_000 + number, "window": 0}
        for number in range(GHOSTS)
    ]

    async def search(collection: str, request: models.QueryRequest) -> list[models.ScoredPoint]:
        found = await store.truth(collection, request)
        nearer = [models.ScoredPoint(id=n, version=0, score=1.0, payload=p) for n, p in enumerate(invented)]
        return [*nearer, *found][: request.limit]

    return search


def repeating(store: QdrantServer) -> Search:
    """Every point comes several times, within the limit."""

    async def search(collection: str, request: models.QueryRequest) -> list[models.ScoredPoint]:
        found = await store.truth(collection, request)
        return [point for point in found for _ in range(TIMES)][: request.limit]

    return search


def boundless(store: QdrantServer) -> Search:
    """The filter, and so the workspace, is not minded."""

    async def search(collection: str, request: models.QueryRequest) -> list[models.ScoredPoint]:
        return await store.truth(collection, request.model_copy(update={"filter": None}))

    return search
