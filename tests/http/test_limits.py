"""U20: places, queues and deadlines, on a real server."""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import cast

import httpx
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from litestar.handlers import HTTPRouteHandler
from sqlalchemy.pool import QueuePool
from structlog.testing import capture_logs

from service.core.access import KeyScope
from service.errors import Overloaded
from service.settings import Settings
from service.surfaces.http import imports
from service.surfaces.http.access import NEEDS
from service.surfaces.http.app import create_app
from service.surfaces.http.gate import work_of
from service.surfaces.http.queue import Lane, LaneSize, Limits, Place, Work
from tests.http.calls import assert_problem, document, ndjson
from tests.http.listening import PATIENCE_S, Listening, listening, until

pytestmark = pytest.mark.anyio


def narrow(settings: Settings, **changes: object) -> Settings:
    """One slot for each kind of work, and nobody waits, unless it is said."""
    return settings.model_copy(update={"max_in_flight": 1, "max_waiting": 0, **changes})


async def stored(server: Listening, *names: str, text: str = "sill") -> None:
    """Store documents."""
    for name in names:
        answer = await server.client.post("/v1/items", json=document(name, text))
        assert answer.status_code == 201, answer.text


async def test_past_its_capacity_the_service_says_so(sqlite_settings: Settings) -> None:
    """U20: past its capacity the service answers 503 with Retry-After at once, and still tells its health."""
    async with listening(narrow(sqlite_settings)) as server:
        held = server.hold("a")
        await server.until_begun("a")
        refused = await server.client.post("/v1/retrieve", json={"query": "sill"})
        assert_problem(refused, 503, "overloaded")
        assert int(refused.headers["retry-after"]) >= 1
        assert server.gate.rejected["overloaded"] == 1
        for path in ("/health/live", "/health/ready", "/metrics"):
            assert (await server.client.get(path)).status_code == 200
        server.go_on.set()
        assert (await held).status_code == 200
        assert (await server.client.post("/v1/retrieve", json={"query": "sill"})).status_code == 200


async def test_requests_wait_in_turn(sqlite_settings: Settings) -> None:
    """U20: as many as may wait do so, in the order in which they came; the next one is refused."""
    async with listening(narrow(sqlite_settings, max_waiting=3)) as server:
        held = [server.hold("0")]
        await server.until_begun("0")
        for number in (1, 2, 3):
            held.append(server.hold(str(number)))
            await server.until_waiting(number)
        assert_problem(await server.client.get("/v1/vocabulary"), 503, "overloaded")
        assert server.begun == ["0"]
        server.go_on.set()
        assert [(await answer).status_code for answer in held] == [200] * 4
        assert server.begun == ["0", "1", "2", "3"]


async def test_who_does_not_wait_is_not_waited_for(sqlite_settings: Settings) -> None:
    """U20: a waiting request whose client has gone away leaves the queue and is never begun."""
    async with listening(narrow(sqlite_settings, max_waiting=3)) as server:
        held = server.hold("a")
        await server.until_begun("a")
        _, writer = await server.raw(b"GET /held/gone HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await server.until_waiting(1)
        writer.close()
        await server.until_waiting(0)
        server.go_on.set()
        await held
        await server.until_idle()
        assert server.begun == ["a"]
        assert server.gate.rejected["client_gone"] == 1


async def test_a_deadline_in_the_queue(sqlite_settings: Settings) -> None:
    """U20: what has waited longer than its deadline is answered without being begun."""
    async with listening(narrow(sqlite_settings, max_waiting=8, request_deadline=0.5)) as server:
        stuck = server.hold("a")
        await server.until_begun("a")
        waited = await server.client.get("/held/b")
        body = assert_problem(waited, 503, "deadline_exceeded")
        assert "retry-after" in waited.headers
        assert "nothing was begun" in str(body["detail"]) or server.begun == ["a", "b"]
        assert_problem(await stuck, 503, "deadline_exceeded")
        await server.until_idle()


async def test_deadlines_give_connections_back(settings: Settings) -> None:
    """U20: a deadline in the middle of a statement leaves no connection behind, on either database."""
    changes = {"request_deadline": 0.5, "max_in_flight": 40, "max_waiting": 0}
    async with listening(settings.model_copy(update=changes)) as server:
        pool = cast("QueuePool", server.application.store.engines.read.pool)
        for _ in range(3):
            answers = await asyncio.gather(*(server.client.get("/slow-statement") for _ in range(20)))
            for answer in answers:
                assert_problem(answer, 503, "deadline_exceeded")
        await server.until_idle()
        await until(lambda: pool.checkedout() == 0)
        assert server.gate.rejected["deadline_exceeded"] == 60
        assert (await server.client.get("/v1/facet-tags")).status_code == 200


async def test_what_was_committed_stays(settings: Settings) -> None:
    """U20: a write that was committed before its deadline stays, and the answer says that it may have been."""
    async with listening(settings.model_copy(update={"request_deadline": 3.0})) as server:
        answer = await server.client.post("/stored-and-stuck", content=json.dumps(document("kept", "sill")))
        body = assert_problem(answer, 503, "deadline_exceeded")
        assert "stays committed" in str(body["detail"])
        assert (await server.client.get("/v1/items/kept")).status_code == 200


async def test_a_body_that_trickles_in_holds_no_slot(sqlite_settings: Settings) -> None:
    """U20: whoever sends a small body byte by byte holds no slot, and is answered when the time is over."""
    async with listening(narrow(sqlite_settings, request_deadline=2.0)) as server:
        head = b"POST /v1/retrieve HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{"
        slow = [await server.raw(head) for _ in range(5)]
        assert (await server.client.post("/v1/retrieve", json={"query": "sill"})).status_code == 200
        for reader, writer in slow:
            assert b" 503 " in await asyncio.wait_for(reader.readline(), PATIENCE_S)
            writer.close()
        assert server.gate.rejected["deadline_exceeded"] == 5


async def test_a_large_body_that_trickles_in_is_bounded(sqlite_settings: Settings) -> None:
    """U20: a body too large to be held holds its slot no longer than the deadline."""
    async with listening(narrow(sqlite_settings, request_deadline=1.0)) as server:
        head = b"POST /v1/retrieve HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n"
        reader, writer = await server.raw(head + b" " * 200_000)
        assert b" 503 " in await asyncio.wait_for(reader.readline(), PATIENCE_S)
        writer.close()
        await server.until_idle()
        assert (await server.client.post("/v1/retrieve", json={"query": "sill"})).status_code == 200


async def test_an_unread_answer_holds_no_slot(sqlite_settings: Settings) -> None:
    """U20: a client that does not read its large answer leaves its slot to others."""
    async with listening(narrow(sqlite_settings)) as server:
        await stored(server, *(f"d{n}" for n in range(5)), text="sill " * 35_000)
        writers = []
        for _ in range(4):
            body = json.dumps({"query": "sill"}).encode()
            head = f"POST /v1/retrieve HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            _, writer = await server.raw((head + body) * 4)  # pipelined, so that sending has to wait
            writers.append(writer)
        await until(lambda: server.gate.working == 0)
        assert (await server.client.post("/v1/retrieve", json={"query": "jamb"})).status_code == 200
        for writer in writers:
            writer.close()
        await server.until_idle()


async def test_imports_leave_room(sqlite_settings: Settings) -> None:
    """U20: open imports take neither the slots of reads nor those of single writes."""
    async with listening(narrow(sqlite_settings)) as server:
        head = b"POST /v1/items/import HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        line = ndjson([document("a", "sill")])
        reader, writer = await server.raw(head + b"%x\r\n%s\r\n" % (len(line), line))
        await asyncio.wait_for(reader.readuntil(b'"item_id":"a"'), PATIENCE_S)
        assert server.gate.lanes()[Work.IMPORT] == (1, 0)
        second = await server.client.post("/v1/items/import", content=ndjson([document("b", "sill")]))
        assert_problem(second, 503, "overloaded")
        await stored(server, "c")
        found = await server.client.post("/v1/retrieve", json={"query": "sill"})
        assert len(found.json()["results"]) == 2
        writer.write(b"0\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), PATIENCE_S)
        writer.close()
        await server.until_idle()


async def test_imports_have_no_deadline(sqlite_settings: Settings) -> None:
    """U20: an import goes on for longer than a request may take."""
    async with listening(narrow(sqlite_settings, request_deadline=0.3)) as server:

        async def lines() -> AsyncIterator[bytes]:
            for number in range(4):
                yield ndjson([document(f"d{number}", "sill")])
                await asyncio.sleep(0.2)

        answer = await server.client.post("/v1/items/import", content=lines())
        assert [json.loads(line)["item_id"] for line in answer.text.splitlines()] == ["d0", "d1", "d2", "d3"]


async def test_blank_lines_do_not_hold_a_slot(
    sqlite_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U20: an import that sends nothing but blank lines ends; what it stored before stays and is told."""
    monkeypatch.setattr(imports, "IDLE_S", 2.0)
    async with listening(narrow(sqlite_settings)) as server:

        async def drip() -> AsyncIterator[bytes]:
            yield ndjson([document("a", "sill")])
            for _ in range(100):
                yield b" \n"
                await asyncio.sleep(0.05)

        async def patient() -> AsyncIterator[bytes]:
            for number in range(8):
                yield ndjson([document(f"d{number}", "sill")])
                await asyncio.sleep(0.4)

        answer = await server.client.post("/v1/items/import", content=drip())
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert lines[0]["item_id"] == "a"
        assert lines[-1]["error"]["code"] == "deadline_exceeded"
        await server.until_idle()
        answer = await server.client.post("/v1/items/import", content=patient())
        assert [json.loads(line)["line"] for line in answer.text.splitlines()] == list(range(1, 9))


def test_every_route_is_of_its_kind(sqlite_settings: Settings) -> None:
    """U20: what needs the scope write is counted among writes, everything else among reads."""
    checked = 0
    for route in create_app(sqlite_settings).routes:
        for handler in getattr(route, "route_handlers", ()):
            if not isinstance(handler, HTTPRouteHandler) or NEEDS not in handler.opt:
                continue
            for method in handler.http_methods:
                writes = handler.opt[NEEDS] is KeyScope.WRITE
                assert (work_of(method, route.path) is not Work.READ) is writes, (method, route.path)
                checked += 1
    assert checked > 20


async def test_a_line_for_each_request(sqlite_settings: Settings) -> None:
    """Every request has one line in the log, with its route and never its query; health only for debugging."""
    async with listening(sqlite_settings) as server:
        with capture_logs() as lines:
            await server.client.post("/v1/retrieve", json={"query": "secret sill"})
            await server.client.get("/v1/items/nobody", headers={"x-request-id": "mine"})
            await server.client.get("/v1/nothing/at/all?password=x")
            await server.client.get("/health/live")
        found = [line for line in lines if line["event"] == "request"]
        assert [(line["method"], line["route"], line["status"]) for line in found] == [
            ("POST", "/v1/retrieve", 200),
            ("GET", "/v1/items/{item_id}", 404),
            ("GET", "unmatched", 404),
            ("GET", "/health/live", 200),
        ]
        assert [line["log_level"] for line in found] == ["info", "info", "info", "debug"]
        assert found[1]["request_id"] == "mine"
        assert found[0]["workspace"] == "default"
        assert not any("secret" in str(line) or "password" in str(line) for line in lines)


def test_lanes_share_what_there_is() -> None:
    """U20: a quarter of the slots is for writes and imports; each kind has one at least."""
    lanes = Limits(in_flight=32, waiting=128).lanes()
    assert (lanes[Work.READ], lanes[Work.WRITE]) == (LaneSize(24, 96), LaneSize(4, 16))
    assert lanes[Work.IMPORT] == LaneSize(4, 16, each=3)
    for in_flight, waiting in ((1, 0), (2, 1), (7, 9)):
        lanes = Limits(in_flight=in_flight, waiting=waiting).lanes()
        assert min(size.slots for size in lanes.values()) >= 1
        assert sum(size.waiting for size in lanes.values()) == waiting


async def test_callers_take_turns() -> None:
    """U20: a caller with many waiting requests delays another's by one turn, not by all of them."""
    lane = Lane(LaneSize(1, 10))
    assert lane.take()
    noisy = [lane.line_up(b"noisy") for _ in range(5)]
    quiet = lane.line_up(b"quiet")
    order = []
    for _ in range(6):
        lane.leave(0.1)
        order += [place for place in (*noisy, quiet) if place.turn.done() and place not in order]
    assert order == [noisy[0], quiet, *noisy[1:]]


async def test_nobody_fills_the_queue_alone() -> None:
    """U20: a full queue sends the newest of the caller with most away for one with fewer, down to equal shares."""
    lane = Lane(LaneSize(1, 4))
    assert lane.take()
    noisy = [lane.line_up(b"noisy") for _ in range(4)]
    with pytest.raises(Overloaded):
        lane.line_up(b"noisy")
    quiet = [lane.line_up(b"quiet") for _ in range(2)]
    for place in noisy[2:]:
        assert isinstance(place.turn.exception(), Overloaded)
    with pytest.raises(Overloaded):
        lane.line_up(b"quiet")
    assert lane.waiting == 4
    assert not any(place.turn.done() for place in (*noisy[:2], *quiet))


async def test_a_holder_leaves_a_slot_to_others() -> None:
    """U20: where there are several slots, one holder never has the last; who may not have it is overtaken."""
    lane = Lane(LaneSize(3, 10, each=2))
    assert lane.take(b"noisy")
    assert lane.take(b"noisy")
    assert not lane.take(b"noisy")
    noisy = [lane.line_up(b"", b"noisy") for _ in range(2)]
    assert lane.take(b"quiet")
    quiet = lane.line_up(b"", b"quiet")
    lane.leave(0.1, b"quiet")
    assert [place.turn.done() for place in (*noisy, quiet)] == [False, False, True]
    lane.leave(0.1, b"noisy")
    assert [place.turn.done() for place in noisy] == [True, False]
    lane.give_back(noisy[0])
    assert noisy[1].turn.done()
    for holder in (b"noisy", b"noisy", b"quiet"):
        lane.leave(0.1, holder)
    assert (lane.working, lane.waiting) == (0, 0)


async def test_who_brings_no_key_is_not_bounded() -> None:
    """U20: where nobody has a key everybody is the same, and all slots are for them."""
    lane = Lane(LaneSize(2, 10, each=1))
    assert lane.take()
    assert lane.take()


async def test_retry_after_follows_the_queue() -> None:
    """U20: the longer the queue and the slower the work, the later one is told to come back, within a minute."""
    lane = Lane(LaneSize(2, 100_000))
    assert lane.take()
    for _ in range(200):
        assert lane.take()
        lane.leave(1.0)
    assert lane.take()
    told = []
    for _ in range(4):
        told.append(lane.retry_after)
        for _ in range(20):
            lane.line_up(b"")
    assert all(earlier < later for earlier, later in pairwise(told))
    for _ in range(1_000):
        lane.line_up(b"")
    assert lane.retry_after == 60


@given(st.lists(st.tuples(st.sampled_from("tlwg"), st.integers(0, 3)), max_size=60))
@hypothesis_settings(deadline=None)
def test_no_slot_is_lost(steps: list[tuple[str, int]]) -> None:
    """U20: whatever comes, leaves and gives up in whatever order: bounds hold and no slot is lost or made."""
    asyncio.run(_slots_add_up(steps))


async def _slots_add_up(steps: list[tuple[str, int]]) -> None:
    lane, holders, places = Lane(LaneSize(2, 5)), 0, list[Place]()
    for step, number in steps:
        if step == "t" and lane.take():
            holders += 1
            assert not places, "nobody is overtaken where nobody is bounded"
        elif step == "w":
            try:
                places.append(lane.line_up(bytes([number])))
            except Overloaded:
                assert lane.waiting == 5
        elif step == "l" and holders:
            holders -= 1
            lane.leave(0.1)
        elif step == "g" and number < len(places):
            place = places.pop(number)
            lane.give_back(place)
        for place in [p for p in places if p.turn.done()]:
            places.remove(place)
            holders += place.turn.exception() is None
        assert (lane.working, lane.waiting) == (holders, len(places))
        assert lane.working <= 2
        assert lane.waiting <= 5
        assert lane.working == 2 or not lane.waiting or holders == lane.working


async def test_answers_after_a_storm(sqlite_settings: Settings) -> None:
    """U20: of many requests at once every one is answered, with 200 or with 503 overloaded, and none is left."""
    async with listening(sqlite_settings.model_copy(update={"max_in_flight": 4, "max_waiting": 8})) as server:
        await stored(server, "a", "b")

        async def one() -> httpx.Response:
            return await server.client.post("/v1/retrieve", json={"query": "sill"})

        answers = await asyncio.gather(*(one() for _ in range(150)))
        assert {answer.status_code for answer in answers} <= {200, 503}
        assert sum(answer.status_code == 200 for answer in answers) >= 4
        assert len((await ask_again(server))["results"]) == 2
        await server.until_idle()


async def ask_again(server: Listening) -> dict[str, list[object]]:
    """One more retrieval."""
    answer = await server.client.post("/v1/retrieve", json={"query": "sill"})
    assert answer.status_code == 200
    found: dict[str, list[object]] = answer.json()
    return found
