"""A whole service over HTTP while its embedded vector store is killed, deleted, damaged or out of space."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.faults.tmpfs import SmallDisk, small_disk
from tests.http.calls import Json, document
from tests.vector_faults.conftest import ON_SQLITE, Stored, assert_lexical_where_degraded
from tests.vector_faults.orders import House
from tests.vector_faults.servers import (
    FLAG_ON,
    QUERIES,
    SOURCES,
    VECTORS_ON,
    Answered,
    Server,
    back,
    served,
    source,
    until,
    windows_of,
)
from tests.vectors.processes import scribble

pytestmark = pytest.mark.anyio

STORE_REASONS = {"store_unavailable", "store_timeout", "store_error"}
KILLS = 2
LOAD = 3  # clients that ask all the time
FILES = [
    "segments/*/segment.json",
    "segments/*/vector_storage/vectors/chunk_0.mmap",
    "wal/open-1",
]
KNOWN = {f"s{number}#{seq}" for number in range(SOURCES) for seq in range(3)}


@asynccontextmanager
async def load(server: Server) -> AsyncIterator[list[tuple[str, Answered]]]:
    """Ask all along; every answer is kept, and one that is no answer fails the test."""
    answers: list[tuple[str, Answered]] = []
    done = asyncio.Event()

    async def ask_on(first: int) -> None:
        number = first
        while not done.is_set():
            query = QUERIES[number % len(QUERIES)]
            answers.append((query, await server.ask(query)))
            number += 1
            await asyncio.sleep(0.01)

    clients = [asyncio.create_task(ask_on(first)) for first in range(LOAD)]
    try:
        yield answers
    finally:
        done.set()
        await asyncio.gather(*clients)


@ON_SQLITE
async def test_the_vectors_have_a_say(server: Server, stored: Stored) -> None:
    """C24: with vectors the same requests have other answers, or these tests would show nothing."""
    hybrid = await server.ask_all()
    assert all(answer.ran for answer in hybrid.values())
    assert all(answer.state == "off" for answer in stored.lexical.values())
    assert all(hybrid[query].kept != stored.lexical[query].kept for query in QUERIES)


async def in_flight(server: Server, count: int) -> None:
    """Wait until so many requests are being answered beside the one that asks for the number."""

    async def enough() -> bool:
        found = await server.metric("citewell_http_in_flight")
        return found is not None and found > count

    await until(enough)


async def test_the_store_killed_in_mid_query(server: Server, stored: Stored) -> None:
    """C27: the store's process is killed with -9 while queries wait for it: each is answered lexically and
    says so, no other request notices, and hybrid answers come back by themselves.
    """
    hybrid = await server.ask_all()
    async with load(server) as answers:
        for _ in range(KILLS):
            shard = server.shard()
            assert shard is not None
            shard.suspend()  # what is asked from now on is surely under way when it is killed
            asked = [asyncio.create_task(server.ask(query)) for query in QUERIES]
            await in_flight(server, len(QUERIES) + LOAD - 1)
            shard.kill()
            waited = list(zip(QUERIES, await asyncio.gather(*asked), strict=True))
            assert any(not answer.ran for _, answer in waited)
            answers += waited
            await back(server, hybrid)
    assert_lexical_where_degraded(answers, stored, STORE_REASONS)
    assert all(answer == hybrid[query] for query, answer in answers if answer.ran)
    await server.settled()


@ON_SQLITE
async def test_the_folder_deleted_while_running(server: Server, stored: Stored) -> None:
    """C27: with the store's folder gone answers go on, and it is filled again without encoding or a restart."""
    await assert_filled_again(server, stored, "vectors")


@ON_SQLITE
async def test_a_collection_deleted_while_running(server: Server, stored: Stored) -> None:
    """C27: so it is with the folder of one collection."""
    await assert_filled_again(server, stored, "vectors/*-1")


async def assert_filled_again(server: Server, stored: Stored, what: str) -> None:
    """Delete a folder under load, and wait for its vectors to be back."""
    hybrid = await server.ask_all()
    async with load(server) as answers:
        (folder,) = server.data_dir.glob(what)
        shutil.rmtree(folder)
        await back(server, hybrid)
    assert any(not answer.ran or answer != hybrid[query] for query, answer in answers)
    assert_lexical_where_degraded(answers, stored, STORE_REASONS | {"no_vectors"})
    assert all(KNOWN.issuperset(answer.passages) for _, answer in answers)
    await server.settled()


async def flushed(server: Server) -> None:
    """Wait until the store has brought what it was told from its log to its files."""

    async def written() -> bool:
        return any(server.data_dir.glob("vectors/*/shard-*/segments/*/mutable_id_tracker.mappings"))

    await until(written)


@ON_SQLITE
async def test_the_log_is_flushed_under_load(server: Server) -> None:
    """C24: what was written leaves the store's log soon, although reads, and the worker's, never pause."""
    async with load(server):
        await flushed(server)


@ON_SQLITE
@pytest.mark.parametrize("pattern", FILES)
async def test_a_file_overwritten_and_the_process_killed(
    server: Server, stored: Stored, pattern: str
) -> None:
    """C27: noise in one of the store's files, found when its process begins again, costs vectors for a while."""
    hybrid = await server.ask_all()
    await flushed(server)  # what is only in the log so far would be written again
    async with load(server) as answers:
        shard = server.shard()
        assert shard is not None
        (file,) = server.data_dir.glob(f"vectors/*/shard-*/{pattern}")
        scribble(file, seed=1)
        shard.kill()
        await back(server, hybrid)
    assert_lexical_where_degraded(answers, stored, STORE_REASONS | {"no_vectors"})
    await server.settled()


def late(number: int) -> Json:
    """A document of a word that no other has."""
    return document(f"late{number}", f"zebra{number} in a sill", title="Late")


@asynccontextmanager
async def on_a_small_disk(house: House) -> AsyncIterator[tuple[Server, SmallDisk]]:
    """A server whose vectors, and nothing else, live on a disk of 128 megabytes."""
    with small_disk(house.data_dir / "vectors", 128) as disk:
        async with served(house, {**VECTORS_ON, **FLAG_ON}) as server:
            await server.settled()
            yield server, disk


@ON_SQLITE
async def test_the_stores_disk_is_full(house: House) -> None:
    """C27: with no space for vectors captures are stored and found at once, readiness says that vectors are
    behind or degraded, and with space again nothing stays pending.
    """
    async with on_a_small_disk(house) as (server, disk):
        points = await server.metric("citewell_vector_points")
        disk.fill()
        for number in range(5):
            await server.store(late(number))
            answer = await server.ask(f"zebra{number}")
            assert answer.passages[0].startswith(f"late{number}")
        newer = {**source(0), "item_id": "s0-again", "version": "v2", "passages": [{"text": "a sill"}]}
        await server.store(newer)

        async def told() -> bool:
            said = await server.vectors()
            return said["state"] == "degraded" or "behind" in str(said["reason"])

        await until(told)
        assert await server.metric("citewell_vector_pending_changes") != 0.0
        for answer in (await server.ask_all()).values():  # C14: its points cannot be removed, yet it is gone
            assert not any(passage.startswith("s0:") for passage in answer.passages)
        disk.free()
        await server.settled()
        assert points is not None
        expected = points + 5 * windows_of(late(0)) + windows_of(newer) - windows_of(source(0))
        assert await server.metric("citewell_vector_points") == expected
