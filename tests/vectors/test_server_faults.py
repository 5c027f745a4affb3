"""The server adapter with the real client, over a real socket, to a server that fails."""

import asyncio
import json
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from service.adapters.vectors.qdrant_server.index import ServerVectorIndex, connect
from service.adapters.vectors.qdrant_server.settings import CollectionSettings, ServerSettings
from service.ports.vectors import (
    CollectionMissing,
    DimensionMismatch,
    Hit,
    MalformedAnswer,
    StoreReason,
    VectorStorageFull,
    VectorStoreError,
    VectorStoreTimeout,
    VectorStoreUnavailable,
)
from tests.vectors.fault_server import FaultServer, http, result
from tests.vectors.parts import COLLECTION, DIMENSION, nearest, points_of, soon, unit_rows

pytestmark = pytest.mark.anyio

QUERY = nearest(unit_rows(1)[0], 5)


@asynccontextmanager
async def adapter(url: str) -> AsyncIterator[ServerVectorIndex]:
    """The adapter as bootstrap builds it."""
    index = ServerVectorIndex(connect(ServerSettings(url)), CollectionSettings())
    yield index
    await index.close()


def always(response: bytes) -> Callable[[str, bytes], Awaitable[bytes]]:
    """The same response to everything."""

    async def reply(path: str, body: bytes) -> bytes:
        return response

    return reply


async def never(path: str, body: bytes) -> bytes:
    """No response at all."""
    await asyncio.sleep(60)
    return b""


async def late(path: str, body: bytes) -> bytes:
    """A good response after the deadline."""
    await asyncio.sleep(0.5)
    return result({"points": []})


async def trickling(path: str, body: bytes) -> bytes:
    """A response that begins and does not go on."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"


@pytest.mark.parametrize("reply", [never, late, trickling])
async def test_a_silent_server_costs_the_deadline_and_no_more(
    reply: Callable[[str, bytes], Awaitable[bytes]],
) -> None:
    """C27: a server that accepts and does not answer in time is a timeout at the deadline."""
    async with FaultServer(reply) as server, adapter(server.url) as index:
        await index._catalogue.look_up(COLLECTION, soon())
        began = time.monotonic()
        with pytest.raises(VectorStoreTimeout) as timeout:
            await index.search(COLLECTION, QUERY, soon(0.2))
        assert 0.15 < time.monotonic() - began < 0.45
        assert timeout.value.reason is StoreReason.TIMEOUT


async def test_a_late_answer_disturbs_nothing() -> None:
    """After a timeout the next call gets its own answer, on a connection of its own."""
    slow = True

    async def reply(path: str, body: bytes) -> bytes:
        if slow:
            return await late(path, body)
        return result({"points": [point(1.0)]})

    async with FaultServer(reply) as server, adapter(server.url) as index:
        with pytest.raises(VectorStoreTimeout):
            await index.search(COLLECTION, QUERY, soon(0.2))
        slow = False
        assert len(await index.search(COLLECTION, QUERY, soon())) == 1


async def test_a_refused_connection_is_unavailable() -> None:
    """C27: nobody listens: unavailable, at once; when somebody does, the same adapter recovers."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}"
    async with adapter(url) as index:
        began = time.monotonic()
        with pytest.raises(VectorStoreUnavailable) as down:
            await index.search(COLLECTION, QUERY, soon())
        with pytest.raises(VectorStoreUnavailable):
            await index.health(soon())
        assert time.monotonic() - began < 1.0
        assert down.value.reason is StoreReason.UNAVAILABLE


async def test_a_connection_that_is_cut_is_unavailable() -> None:
    """A server that hangs up in the middle of an answer."""

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        writer.close()

    server = await asyncio.start_server(cut, "127.0.0.1", 0)
    async with server, adapter(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as index:
        with pytest.raises(VectorStoreUnavailable):
            await index.describe(COLLECTION, soon())


def error(status: int, said: str, *headers: str) -> bytes:
    """What a Qdrant server answers when it refuses."""
    return http(status, json.dumps({"status": {"error": said}, "time": 0.0}).encode(), *headers)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (error(500, "Service internal error"), VectorStoreError),
        (error(500, "No space left on device (os error 28)"), VectorStorageFull),
        (error(507, "full"), VectorStorageFull),
        (error(400, "Wrong input: Vector dimension error: expected dim: 4, got 8"), DimensionMismatch),
        (error(400, "Wrong input: something else"), VectorStoreError),
        (error(401, "Must provide an API key"), VectorStoreError),
        (error(403, "Forbidden"), VectorStoreError),
        (error(404, "Not found: Collection `x` doesn't exist!"), CollectionMissing),
        (error(408, "Operation timed out"), VectorStoreTimeout),
        (error(429, "Too many requests"), VectorStoreUnavailable),
        (error(429, "Too many requests", "Retry-After: 3"), VectorStoreUnavailable),
        (error(429, "Too many requests", "Retry-After: soon"), VectorStoreUnavailable),
        (error(502, "Bad gateway"), VectorStoreUnavailable),
        (error(503, "Unavailable"), VectorStoreUnavailable),
        (error(504, "Gateway timeout"), VectorStoreTimeout),
        (http(302, b"", "Location: /elsewhere"), VectorStoreError),
    ],
)
async def test_refusals_become_the_closed_reasons(response: bytes, expected: type[VectorStoreError]) -> None:
    """C27: each status of a server is exactly one error of the port, for a search and for a write."""
    async with FaultServer(always(response)) as server, adapter(server.url) as index:
        with pytest.raises(VectorStoreError) as search:
            await index.search(COLLECTION, QUERY, soon())
        with pytest.raises(VectorStoreError) as write:
            await index.upsert(COLLECTION, points_of(2), unit_rows(2), soon())
    assert (type(search.value), type(write.value)) == (expected, expected)


def point(score: float | str, **changes: object) -> dict[str, object]:
    """A scored point as a server sends it."""
    whole = {
        "id": str(points_of(1)[0].id),
        "version": 1,
        "score": score,
        "payload": {"item_id": "item-00000", "seq": 0, "window": 0},
    }
    return whole | changes


@pytest.mark.parametrize(
    "response",
    [
        http(200, b"<html>not json</html>"),
        http(200, b'{"result": {"points": [{"id": 1'),
        http(200, b""),
        result(None),
        result({"points": "many"}),
        result({"points": [point("high")]}),
        result({"points": [point(float("nan"))]}),
        result({"points": [point(float("inf"))]}),
        result({"points": [point(0.9), point(float("nan"))]}),
        result({"points": [point(0.5, payload=None)]}),
        result({"points": [point(0.5, payload={"item_id": "x", "seq": "0", "window": 0})]}),
        result({"points": [point(0.5, payload={"item_id": "x", "seq": 0})]}),
    ],
)
async def test_answers_that_cannot_be_hits_are_malformed(response: bytes) -> None:
    """C27: broken JSON, a missing result, a NaN or infinite score or a foreign payload is an error,
    never a hit.
    """
    async with FaultServer(always(response)) as server, adapter(server.url) as index:
        with pytest.raises(MalformedAnswer) as malformed:
            await index.search(COLLECTION, QUERY, soon())
    assert malformed.value.reason is StoreReason.ERROR


async def test_a_point_that_comes_twice_stands_twice() -> None:
    """C15: duplicates in an answer are passed on, best first: as many as came tell whether there are more."""
    response = result({"points": [point(0.5), point(0.9), point(0.7)]})
    async with FaultServer(always(response)) as server, adapter(server.url) as index:
        key = points_of(1)[0].key
        assert await index.search(COLLECTION, QUERY, soon()) == (Hit(key, 0.9), Hit(key, 0.7), Hit(key, 0.5))


@pytest.mark.parametrize("identity", [7, "not-a-uuid"])
async def test_foreign_ids_are_malformed(identity: int | str) -> None:
    """A listing that holds an id of another kind is an error, so that nothing is reconciled by guesses."""
    page = {"points": [{"id": identity, "payload": None}], "next_page_offset": None}
    async with FaultServer(always(result(page))) as server, adapter(server.url) as index:
        with pytest.raises(MalformedAnswer):
            await index.ids(COLLECTION, None, None, 10, soon())


async def test_an_invalid_vector_never_reaches_the_server() -> None:
    """The server is asked for the dimension and for nothing else."""
    async with FaultServer(always(result(None))) as server, adapter(server.url) as index:
        with pytest.raises(DimensionMismatch):
            await index.search(COLLECTION, nearest(unit_rows(1, DIMENSION + 1)[0], 5), soon())
        assert {line.split()[0] for line in server.asked} == {"GET"}


async def test_a_collection_made_by_somebody_else_meanwhile_is_used() -> None:
    """E16: two processes that ensure one collection at once end up with the same one."""
    answers = [error(404, "Not found"), error(409, "Wrong input: Collection `x` already exists!")]

    async def cut_short(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers.pop(0))
        writer.close()

    server = await asyncio.start_server(cut_short, "127.0.0.1", 0)
    async with server, adapter(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as index:
        answers += [error(503, "and here this test has seen enough")]
        with pytest.raises(VectorStoreUnavailable):
            await index.ensure(COLLECTION, DIMENSION, soon())
    assert answers == []


GRPC_CODES = {
    "UNAVAILABLE": VectorStoreUnavailable,
    "RESOURCE_EXHAUSTED": VectorStoreUnavailable,
    "DEADLINE_EXCEEDED": VectorStoreTimeout,
    "NOT_FOUND": CollectionMissing,
    "INVALID_ARGUMENT Vector dimension error: expected dim: 4, got 8": DimensionMismatch,
    "INTERNAL No space left on device": VectorStorageFull,
    "UNAUTHENTICATED": VectorStoreError,
    "INTERNAL": VectorStoreError,
    "silent": VectorStoreTimeout,
    "refused": VectorStoreUnavailable,
}


async def test_grpc_codes_become_the_closed_reasons() -> None:
    """C27: over gRPC too, each failure of a real server is exactly one error of the port."""
    # grpc keeps to the first event loop of a process, so it has a process of its own here
    script = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.vectors.grpc_faults", *GRPC_CODES, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await script.communicate()
    assert dict(zip(GRPC_CODES, said.decode().split(), strict=True)) == {
        fault: error.__name__ for fault, error in GRPC_CODES.items()
    }


def test_a_key_is_never_shown() -> None:
    """The settings' text form does not hold the API key."""
    assert "secret" not in repr(ServerSettings("https://host", api_key="secret"))
