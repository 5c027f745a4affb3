"""U20: what a connection may cost before anybody looks at its request."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from service.settings import Settings
from service.surfaces.cli.connection import MAX_PIPELINED, PIECE, ConnectionBounds
from service.surfaces.http.app import create_app
from tests.http.calls import document
from tests.load.door import LIVE, VOCABULARY, Door, answered, door, rest
from tests.load.test_stopping import Running, running

pytestmark = pytest.mark.anyio

MB = 1_000_000
HEAD = 64 * 1024
BOUNDS = ConnectionBounds(connections=100)
HURRIED = ConnectionBounds(connections=100, head_seconds=1.0, unread_seconds=1.0)
START = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n"
CHUNKED = b"POST /v1/items/import HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture
async def inside(sqlite_settings: Settings) -> AsyncIterator[Door]:
    """A server with the bounds of every day."""
    async with door(create_app(sqlite_settings), BOUNDS) as opened:
        await opened.opened.wait()
        yield opened


@pytest.fixture
async def hurried(sqlite_settings: Settings) -> AsyncIterator[Door]:
    """A server that waits for headers for one second."""
    async with door(create_app(sqlite_settings), HURRIED) as opened:
        await opened.opened.wait()
        yield opened


async def sent_endlessly(inside: Door, start: bytes, piece: bytes) -> tuple[int, bytes]:
    """How many bytes were taken before the connection ended, and what was said; at most 30 MB are sent."""
    reader, writer = await inside.connect(start)
    reading, sent = asyncio.create_task(rest(reader)), 0
    with suppress(ConnectionError):
        while sent < 30 * MB and not reading.done():
            writer.write(piece)
            sent += len(piece)
            await writer.drain()
            await asyncio.sleep(0)
    return sent, await reading


@pytest.mark.parametrize(
    ("start", "piece", "status"),
    [
        (b"GET /", b"a" * 10_000, 414),
        (START + b"x: ", b"a" * 10_000, 431),
        (START, b"a" * 10_000, 431),
        (START, b"x: y\r\n" * 10, 431),
        (START, b"x: " + b"a" * 10_000 + b"\r\n", 431),
        (b"", b"\r\n" * 5_000, 431),
    ],
    ids=["address", "value", "name", "many headers", "long headers", "blank lines"],
)
async def test_a_head_without_end(inside: Door, start: bytes, piece: bytes, status: int) -> None:
    """U20: an address or headers without end are refused with a problem, and what is sent on is not kept."""
    sent, told = await sent_endlessly(inside, start, piece)
    assert sent < 30 * MB
    assert told.startswith(b"HTTP/1.1 %d " % status)
    head, _, body = told.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    problem = json.loads(body)
    assert (problem["status"], problem["code"]) == (status, "too_large")
    await inside.until_inside(0)


async def test_trailers_without_end(inside: Door) -> None:
    """U20: what follows a body's last chunk is bounded as headers are, be they many or be one endless."""
    for piece in (b"x: y\r\n" * 1_000, b"a" * 10_000):
        sent, _ = await sent_endlessly(inside, CHUNKED + b"0\r\n", piece)
        assert sent < 30 * MB
        await inside.until_inside(0)


async def test_large_heads_that_end(inside: Door) -> None:
    """U20: headers and addresses within the bound are read, request after request on one connection."""
    reader, writer = await inside.connect()
    long = START + b"".join(b"x-%d: %s\r\n" % (n, b"a" * 600) for n in range(90)) + b"\r\n"
    wide = b"GET /health/live?x=" + b"a" * (HEAD - 2 * PIECE) + b" HTTP/1.1\r\nhost: localhost\r\n\r\n"
    assert len(long) < HEAD
    for request, expected in ((long, b"200"), (wide, b"400"), (LIVE, b"200")) * 5:
        for start in range(0, len(request), 10_000):
            writer.write(request[start : start + 10_000])
            await writer.drain()
        assert (await answered(reader)).split()[1] == expected


async def test_bodies_are_not_bounded_as_headers_are(inside: Door) -> None:
    """U20: a body in small chunks, however many, is the application's to bound."""
    lines = [json.dumps(document(f"d{n}", "sill " * 50)).encode() + b"\n" for n in range(300)]
    body = b"".join(lines)
    assert len(body) > HEAD
    reader, writer = await inside.connect(CHUNKED)
    for start in range(0, len(body), 7):
        piece = body[start : start + 7]
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
    writer.write(b"0\r\nx-trailer: y\r\n\r\n")
    async with asyncio.timeout(60):
        told = await reader.readuntil(b"\r\n0\r\n\r\n")
    assert told.count(b'"item_id":"d') == 300


async def test_a_flood_of_pipelined_requests(inside: Door) -> None:
    """U20: so many requests that nobody waits for are not kept; a few in one go are all answered."""
    reader, writer = await inside.connect(LIVE * 10)
    for _ in range(10):
        assert (await answered(reader)).startswith(b"HTTP/1.1 200 ")
    writer.close()
    sent, told = await sent_endlessly(inside, b"", LIVE * 1_000)
    assert sent < 30 * MB
    assert told.count(b"HTTP/1.1 200 ") <= 2 * MAX_PIPELINED
    await inside.until_inside(0)


async def test_what_is_no_http(inside: Door) -> None:
    """U16: what cannot be read as HTTP is 400 with a problem, and the connection ends."""
    reader, _ = await inside.connect(b"\x16\x03\x01 this is no request\r\n\r\n")
    told = await rest(reader)
    assert told.startswith(b"HTTP/1.1 400 ")
    assert json.loads(told.partition(b"\r\n\r\n")[2])["code"] == "invalid_input"


async def test_a_head_that_trickles_in(hurried: Door) -> None:
    """U20: headers that do not become complete in their time are 408, a byte now and then or not."""
    reader, writer = await hurried.connect(START)

    async def trickle() -> None:
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.05)

    trickling = asyncio.create_task(trickle())
    told = await rest(reader)
    trickling.cancel()
    assert told.startswith(b"HTTP/1.1 408 ")
    assert json.loads(told.partition(b"\r\n\r\n")[2])["code"] == "deadline_exceeded"


async def test_silent_connections_end(hurried: Door) -> None:
    """U20: who connects and says nothing, or nothing but blank lines after an answer, is not waited for."""
    silent, _ = await hurried.connect()
    blank, writer = await hurried.connect(LIVE)
    assert (await answered(blank)).startswith(b"HTTP/1.1 200 ")

    async def say_nothing() -> None:
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b"\r\n")
                await writer.drain()
                await asyncio.sleep(0.05)

    saying = asyncio.create_task(say_nothing())
    assert await rest(silent) == b""
    await rest(blank)
    saying.cancel()
    await hurried.until_inside(0)


async def test_a_body_after_its_answer(sqlite_settings: Settings) -> None:
    """U20: who goes on sending a body that was refused is not waited for."""
    settings = sqlite_settings.model_copy(update={"max_body_bytes": 1_000})
    async with door(create_app(settings), HURRIED) as hurried:
        await hurried.opened.wait()
        head = b"POST /v1/retrieve HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000000\r\n\r\n"
        reader, writer = await hurried.connect(head + b" " * 100_000)
        assert (await answered(reader)).startswith(b"HTTP/1.1 413 ")

        async def go_on() -> None:
            with suppress(ConnectionError):
                while not writer.is_closing():
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.05)

        going = asyncio.create_task(go_on())
        await hurried.until_inside(0)
        going.cancel()


async def test_an_answer_that_nobody_reads(hurried: Door) -> None:
    """U20: a client that takes no byte of its answers is cut off."""
    body = json.dumps(document("a", "sill " * 35_000)).encode()
    stored = await hurried.asked(
        b"POST /v1/items HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    )
    assert stored.startswith(b"HTTP/1.1 201 ")
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.setblocking(False)  # noqa: FBT003 - positional only
        loop = asyncio.get_running_loop()
        await loop.sock_connect(deaf, ("127.0.0.1", hurried.port))
        ask = b"GET /v1/items/a HTTP/1.1\r\nhost: localhost\r\n\r\n"
        await loop.sock_sendall(deaf, ask * MAX_PIPELINED)
        await hurried.until_inside(1)
        await hurried.until_inside(0)


async def test_whoever_waits_for_longest_makes_room(sqlite_settings: Settings) -> None:
    """U20: at the bound of connections the one that is idle for longest goes, so that health is answered."""
    async with door(create_app(sqlite_settings), ConnectionBounds(connections=5)) as full:
        await full.opened.wait()
        kept = []
        for _ in range(5):
            kept.append(await full.connect(START))
            await full.until_inside(len(kept))
        for _ in range(20):
            assert (await full.asked(LIVE)).startswith(b"HTTP/1.1 200 ")
        assert await rest(kept[0][0]) == b""
        assert len(full.crowd.connections) <= 5


async def test_a_house_full_of_requests(sqlite_settings: Settings) -> None:
    """U20: connections whose requests are worked on are not sent away; one more is told 503 and goes."""
    settings = sqlite_settings.model_copy(update={"request_deadline": 60.0})
    async with door(create_app(settings), ConnectionBounds(connections=3)) as full:
        await full.opened.wait()
        head = b"POST /v1/retrieve HTTP/1.1\r\nhost: localhost\r\ncontent-length: 16\r\n\r\n"
        inside = [await full.connect(head) for _ in range(3)]
        async with asyncio.timeout(30):
            while len(full.crowd.owed()) < 3:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
        reader, _ = await full.connect()
        told = await rest(reader)
        assert told.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in told
        assert json.loads(told.partition(b"\r\n\r\n")[2])["code"] == "overloaded"
        for reader, writer in inside:
            writer.write(b'{"query":"sill"}')
            assert (await answered(reader)).startswith(b"HTTP/1.1 200 ")


async def test_what_works_is_not_hurried(hurried: Door) -> None:
    """U20: a request whose body takes longer than headers may is not cut off for that."""
    head = b"POST /v1/retrieve HTTP/1.1\r\nhost: localhost\r\ncontent-length: 16\r\n\r\n"
    reader, writer = await hurried.connect(head)
    for byte in b'{"query":"sill"}':
        await asyncio.sleep(0.2)
        writer.write(bytes([byte]))
    assert (await answered(reader)).startswith(b"HTTP/1.1 200 ")
    writer.write(VOCABULARY)
    assert (await answered(reader)).startswith(b"HTTP/1.1 200 ")


def test_headers_do_not_fill_the_memory(tmp_path: Path) -> None:
    """U20: connections without a key that send headers without end are cut off and cost no memory."""
    with running(tmp_path) as server:
        process = psutil.Process(server.process.pid)
        before = process.memory_info().rss
        for start, piece in (
            (START, b"x: " + b"a" * 100_000 + b"\r\n"),
            (START + b"x: ", b"a" * 100_000),
            (b"GET /", b"a" * 100_000),
        ):
            assert poured(server, start, piece) < 60 * MB
        assert process.memory_info().rss - before < 30 * MB
        with server.connect() as connection:
            connection.sendall(LIVE)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")


def poured(server: Running, start: bytes, piece: bytes) -> int:
    """How many bytes a server took before it cut the connection; at most 60 MB."""
    sent = 0
    with server.connect() as connection, suppress(ConnectionError):
        connection.sendall(start)
        until = time.monotonic() + 60.0
        while sent < 60 * MB and time.monotonic() < until:
            connection.sendall(piece)
            sent += len(piece)
    return sent
