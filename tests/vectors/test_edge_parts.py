"""The pieces of the embedded store that need no shard."""

import asyncio
import signal
import socket
import struct
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.adapters.vectors.qdrant_edge import folders
from service.adapters.vectors.qdrant_edge.channel import Channel
from service.adapters.vectors.qdrant_edge.fate import (
    CRASH_WINDOW_SECONDS,
    CRASHES,
    Backoff,
    CrashRecord,
    Fate,
)
from service.adapters.vectors.qdrant_edge.inbox import Inbox
from service.adapters.vectors.qdrant_edge.launch import Exit
from service.adapters.vectors.qdrant_edge.wire import (
    MAX_BODY,
    BadFrame,
    Count,
    Counted,
    Delete,
    Head,
    Hits,
    Search,
    frame,
    pack_ids,
    unpack_ids,
)
from service.ports.vectors import (
    CollectionName,
    MalformedAnswer,
    VectorStoreTimeout,
    VectorStoreUnavailable,
)
from tests.vectors.parts import soon

ids = st.lists(st.uuids())


@given(ids)
def test_ids_survive_the_wire(some: list[uuid.UUID]) -> None:
    """Packing ids and unpacking them gives the ids in their order."""
    assert unpack_ids(pack_ids(some)) == some


def test_a_cut_off_list_of_ids_is_no_list() -> None:
    """A length that is no multiple of 16 is a broken frame."""
    with pytest.raises(BadFrame):
        unpack_ids(b"x" * 17)


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=70_000)), max_size=20), st.integers(1, 40_000))
def test_frames_are_cut_out_of_any_stream(asked: list[tuple[bool, bytes]], step: int) -> None:
    """However a stream is cut into packets, every frame comes out whole, reads in order and writes in order."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        inbox = Inbox(theirs)
        request = Search("w", None, 1)
        stream = b"".join(
            frame(number, soon(), Delete() if writes else request, body)
            for number, (writes, body) in enumerate(asked)
        )
        seen = []
        for start in range(0, len(stream), step):
            ours.sendall(stream[start : start + step])
            while (taken := inbox.next(0.0)) is not None:
                seen.append((taken.call, isinstance(taken.request, Delete), taken.body))
        inbox.close()
    assert sorted(seen) == [(number, *frame) for number, frame in enumerate(asked)]
    for kind in (True, False):
        calls = [call for call, writes, _ in seen if writes is kind]
        assert calls == sorted(calls)


def test_searches_overtake_writes_but_do_not_starve_them() -> None:
    """Of a hundred waiting writes and searches each, searches go first and every ninth turn is a write's."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        inbox = Inbox(theirs)
        for number in range(100):
            ours.sendall(frame(number, soon(), Delete()))
        for number in range(100):
            ours.sendall(frame(number, soon(), Count(None)))
        order = "".join("w" if isinstance(inbox.next(1.0).request, Delete) else "r" for _ in range(200))  # type: ignore[union-attr]
        inbox.close()
    assert order.startswith("rrrrrrrrw" * 11)
    assert order.count("w") == 100


def test_a_frame_of_absurd_length_is_refused() -> None:
    """Nobody allocates what a broken peer announces."""
    with pytest.raises(BadFrame):
        Head.read(struct.pack("<QdII", 1, 0.0, 10, MAX_BODY + 1))


@pytest.fixture
async def wire() -> AsyncIterator[tuple[Channel, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A channel, and the other end of its connection."""
    ours, theirs = socket.socketpair()
    channel = await Channel.attached(ours, most=3)
    reader, writer = await asyncio.open_unix_connection(sock=theirs)
    yield channel, reader, writer
    writer.close()
    await channel.close()


Wire = tuple[Channel, asyncio.StreamReader, asyncio.StreamWriter]


async def heard(reader: asyncio.StreamReader) -> Head:
    """The head of the next request."""
    head = Head.read(await reader.readexactly(24))
    await reader.readexactly(head.message + head.body)
    return head


@pytest.mark.anyio
async def test_answers_find_their_calls_in_any_order(wire: Wire) -> None:
    """Calls in flight at once are answered in reverse, and each gets its own answer."""
    channel, reader, writer = wire
    calls = [asyncio.create_task(channel.call(Count(None), b"", Counted, soon())) for _ in range(3)]
    heads = [await heard(reader) for _ in calls]
    for head in reversed(heads):
        writer.write(frame(head.call, 0.0, Counted(head.call * 100)))

    answers = [answer.points for answer, _ in await asyncio.gather(*calls)]

    assert answers == [head.call * 100 for head in heads]


@pytest.mark.anyio
async def test_an_answer_after_its_deadline_is_dropped(wire: Wire) -> None:
    """The late answer of one call is not taken for the next one's."""
    channel, reader, writer = wire
    with pytest.raises(VectorStoreTimeout):
        await channel.call(Count(None), b"", Counted, soon(0.05))
    late = await heard(reader)
    following = asyncio.create_task(channel.call(Count(None), b"", Counted, soon()))
    head = await heard(reader)
    writer.write(frame(late.call, 0.0, Counted(1)) + frame(head.call, 0.0, Counted(2)))

    answer, _ = await following

    assert answer.points == 2


@pytest.mark.anyio
async def test_a_lost_connection_fails_every_call_at_once(wire: Wire) -> None:
    """Calls in flight and calls that come later are unavailable, long before their deadlines."""
    channel, reader, writer = wire
    calls = [asyncio.create_task(channel.call(Count(None), b"", Counted, soon(60))) for _ in range(3)]
    await heard(reader)
    began = time.monotonic()
    writer.close()

    answers = await asyncio.gather(*calls, return_exceptions=True)

    assert {type(answer) for answer in answers} == {VectorStoreUnavailable}
    with pytest.raises(VectorStoreUnavailable):
        await channel.call(Count(None), b"", Counted, soon(60))
    assert time.monotonic() - began < 1.0


@pytest.mark.anyio
@pytest.mark.parametrize(
    "nonsense",
    [
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n" + bytes(24),
        struct.pack("<QdII", 1, 0.0, 4, 0) + b"\xc1\xc1\xc1\xc1",
        struct.pack("<QdII", 1, 0.0, 1, 0) + b"\x90",
    ],
    ids=["another protocol", "no msgpack", "no known message"],
)
async def test_a_peer_that_speaks_nonsense_is_hung_up_on(wire: Wire, nonsense: bytes) -> None:
    """A frame that cannot be read ends the connection; calls fail as unavailable instead of waiting."""
    channel, _, writer = wire
    call = asyncio.create_task(channel.call(Count(None), b"", Counted, soon(60)))
    await asyncio.sleep(0)
    writer.write(nonsense)

    with pytest.raises(VectorStoreUnavailable):
        await call


@pytest.mark.anyio
async def test_an_answer_of_another_kind_is_malformed(wire: Wire) -> None:
    """An answer to a question that was not asked is not taken for one."""
    channel, reader, writer = wire
    call = asyncio.create_task(channel.call(Search("w", None, 1), b"", Counted, soon()))
    head = await heard(reader)
    writer.write(frame(head.call, 0.0, Counted(1)))
    assert (await call)[0].points == 1
    wrong = asyncio.create_task(channel.call(Count(None), b"", Counted, soon()))
    head = await heard(reader)
    writer.write(frame(head.call, 0.0, Hits([])))

    with pytest.raises(MalformedAnswer):
        await wrong


CRASHED = -signal.SIGSEGV
PANICKED = 1


@pytest.mark.parametrize("code", [CRASHED, -signal.SIGBUS, -signal.SIGABRT, PANICKED])
def test_repeated_crashes_set_a_collection_aside(code: int) -> None:
    """The third crash within the window is one too many; older ones are forgotten."""
    record = CrashRecord()
    assert [record.fate(code, room=True, now=float(at)) for at in range(CRASHES)] == [
        Fate.RESTART,
        Fate.RESTART,
        Fate.SET_ASIDE,
    ]
    slow = CrashRecord()
    far_apart = CRASH_WINDOW_SECONDS
    assert {slow.fate(code, room=True, now=at * far_apart) for at in range(10)} == {Fate.RESTART}


@pytest.mark.parametrize("code", [-signal.SIGKILL, -signal.SIGTERM, Exit.CLEAN, Exit.BUSY])
def test_being_ended_from_outside_is_no_crash(code: int) -> None:
    """However often."""
    record = CrashRecord()
    assert {record.fate(code, room=True, now=float(at)) for at in range(50)} == {Fate.RESTART}


def test_damage_is_set_aside_unless_the_disk_is_full() -> None:
    """On a full disk everything fails, so nothing that happens there is held against the shard."""
    record = CrashRecord()
    assert record.fate(Exit.DAMAGED, room=True, now=0.0) is Fate.SET_ASIDE
    for code in (Exit.DAMAGED, -signal.SIGBUS, Exit.FULL, -signal.SIGKILL):
        assert {record.fate(code, room=False, now=1.0) for _ in range(5)} == {Fate.WAIT_FOR_ROOM}


def test_pauses_double_up_to_a_bound() -> None:
    """And begin anew after a reset."""
    backoff = Backoff(0.1, 1.0)
    assert [backoff.pause() for _ in range(6)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    backoff.reset()
    assert backoff.pause() == 0.1


@pytest.mark.parametrize("name", ["", "..", "a/b", "/etc", "aside", "A", "a b", "a" * 101, ".x"])
def test_a_collections_name_cannot_leave_the_root(name: str) -> None:
    """Names become folders, so only small letters, digits and dashes are names."""
    with pytest.raises(ValueError, match="name"):
        folders.folder(Path("/data"), CollectionName(name))
