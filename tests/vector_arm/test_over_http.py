"""The vector arm behind HTTP: when its time begins, and what a drill shows."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.vectors.memory import MemoryVectorIndex
from service.core.breaker import Breaker
from service.model import ItemId
from service.ports.flag import RolloutFlag
from service.ports.vectors import Hit, MalformedAnswer, PointKey
from service.search.plan import Hybrid
from service.search.retrieve import Retriever
from service.search.vector_arm import ArmBreakers
from service.settings import Settings
from tests.http.calls import VOCABULARY, document
from tests.http.listening import PATIENCE_S, Listening, listening
from tests.vector_arm.parts import GENEROUS_S, AlwaysOn, LyingIndex, Vectors, WordEncoder

pytestmark = pytest.mark.anyio
BUDGET_S = 1.5
TOO_LONG_S = BUDGET_S + 0.2
QUERY = {"query": "sill"}
ARMS = re.compile(rb'"arms":\{.*?\}\}')
DEGRADED = {"state": "degraded", "reason": "encode_timeout"}


@asynccontextmanager
async def house(
    settings: Settings, flag: RolloutFlag | None = None, budget: float = BUDGET_S
) -> AsyncIterator[tuple[Listening, Vectors]]:
    """A real server whose retrievals have a vector arm; without a flag of its own, under the service's."""
    async with listening(settings) as server:
        application = server.application
        index = LyingIndex(MemoryVectorIndex())
        ledger = SqlVectorLedger(application.store.engines, "float32")
        vectors = Vectors(application, index, WordEncoder(), ledger)
        hybrid = Hybrid(vectors.arm, flag or application.flag, budget=budget)
        server.app.state.application = replace(
            application,
            retriever=Retriever(application.store, application.lexical, hybrid),
            vectors=replace(application.vectors, arm=vectors.arm),
        )
        for name, text in (("a", "threshold heights"), ("b", "sill colours"), ("c", "glass")):
            answer = await server.client.post("/v1/items", json=document(name, text))
            assert answer.status_code == 201, answer.text
        await vectors.sync()
        try:
            yield server, vectors
        finally:
            await vectors.arm.close()


async def vector_of(server: Listening) -> object:
    """What the answer to an ordinary request says of the vector arm."""
    answer = await server.client.post("/v1/retrieve", json=QUERY)
    assert answer.status_code == 200, answer.text
    return answer.json()["arms"]["vector"]


async def until_it_runs(server: Listening) -> None:
    """Ask until vectors take part: a stalled machine may cost a request its budget."""
    async with asyncio.timeout(GENEROUS_S):
        while await vector_of(server) != {"state": "ran", "reason": "ran"}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_the_budget_counts_from_the_arrival(sqlite_settings: Settings) -> None:
    """C27: a request whose body took longer than the budget has no time left for vectors; nothing is blamed."""
    async with house(sqlite_settings, AlwaysOn()) as (server, vectors):
        await until_it_runs(server)
        before = vectors.encoder.queries
        body = json.dumps(QUERY).encode()
        head = "POST /v1/retrieve HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        reader, writer = await server.raw(head.encode() + body[:5])
        await asyncio.sleep(TOO_LONG_S)
        writer.write(body[5:])
        async with asyncio.timeout(PATIENCE_S):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200")
        told = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert told["arms"]["vector"] == DEGRADED
        assert [hit["provenance"]["item_id"] for hit in told["results"]] == ["b"]
        assert vectors.encoder.queries == before
        assert vectors.arm.breakers == ArmBreakers(Breaker(), Breaker())
        await until_it_runs(server)


async def test_waiting_in_the_queue_counts(sqlite_settings: Settings) -> None:
    """C27: a request, and a page, that waited for a slot longer than the budget are answered lexically."""
    narrow = sqlite_settings.model_copy(update={"max_in_flight": 1, "max_waiting": 3})
    async with house(narrow, AlwaysOn()) as (server, vectors):
        await until_it_runs(server)
        held = server.hold("a")
        await server.until_begun("a")
        waiting = asyncio.create_task(vector_of(server))
        page = asyncio.create_task(server.client.get("/", params={"q": "sill"}))
        system = asyncio.create_task(server.client.get("/v1/systems/sl45/passages"))
        await server.until_waiting(3)
        await asyncio.sleep(TOO_LONG_S)
        server.go_on.set()
        await held
        assert await waiting == DEGRADED
        assert "was not embedded within the time" in (await page).text
        assert (await system).status_code == 200
        assert vectors.arm.breakers == ArmBreakers(Breaker(), Breaker())
        await until_it_runs(server)


@pytest.mark.parametrize(
    ("drill", "reason"),
    [("off", "forced_off"), ("error", "store_error"), ("slow:20000ms", "store_timeout")],
)
async def test_a_drill_while_the_flag_is_off(sqlite_settings: Settings, drill: str, reason: str) -> None:
    """E14: while nobody has the vector arm, a drill shows what callers of an ill one would get: to the byte the
    lexical answer, but for `arms`, which says why.
    """
    async with house(sqlite_settings, budget=0.2) as (server, _):
        put = await server.client.put("/v1/vocabulary", json=VOCABULARY)
        assert put.status_code in (200, 204), put.text
        for path, body in (
            ("/v1/retrieve", {**QUERY, "explain": True}),
            ("/v1/selection/passages", {"option_ids": ["cold"]}),
            ("/v1/selection/evidence", {"option_ids": ["cold"]}),
        ):
            plain = await server.client.post(path, json=body)
            drilled = await server.client.post(path, json={**body, "force_arm": drill})
            assert_degraded(plain.content, drilled.content, reason)
        plain = await server.client.get("/v1/systems/sl45/passages")
        drilled = await server.client.get("/v1/systems/sl45/passages", params={"force_arm": drill})
        assert_degraded(plain.content, drilled.content, reason)


def assert_degraded(plain: bytes, drilled: bytes, reason: str) -> None:
    """The drilled body says degraded and why, the plain one off; the rest is the same."""
    assert json.loads(plain)["arms"]["vector"] == {"state": "off", "reason": "off"}
    assert json.loads(drilled)["arms"]["vector"] == {"state": "degraded", "reason": reason}
    assert ARMS.sub(b"", plain) == ARMS.sub(b"", drilled)


async def test_a_drill_of_a_quick_arm_shows_the_hybrid_answer(sqlite_settings: Settings) -> None:
    """E14: an arm that is slow, but in time, answers its drill, while other requests stay lexical."""
    async with house(sqlite_settings, budget=GENEROUS_S) as (server, _):
        drilled = await server.client.post("/v1/retrieve", json={**QUERY, "force_arm": "slow:20ms"})
        assert drilled.json()["arms"]["vector"]["state"] == "ran"
        assert {hit["provenance"]["item_id"] for hit in drilled.json()["results"]} >= {"a", "b"}
        assert await vector_of(server) == {"state": "off", "reason": "off"}


async def test_rounds_are_metrics(sqlite_settings: Settings) -> None:
    """C15: how often the index was asked further, what no row confirmed and what was done without is shown."""
    async with house(sqlite_settings, AlwaysOn(), GENEROUS_S) as (server, vectors):
        await vector_of(server)
        page = (await server.client.get("/metrics")).text
        assert 'citewell_vector_rounds_total{round="1"} 1.0' in page
        assert 'citewell_vector_rounds_total{round="4"} 0.0' in page
        assert "citewell_vector_unconfirmed_passages_total 0.0" in page
        assert 'citewell_vector_cut_short_total{reason="store_timeout"} 0.0' in page
        vectors.index.extra = [Hit(PointKey(ItemId(f"ghost-{n}"), 0), 0.999) for n in range(400)]
        vectors.index.error, vectors.index.ill_beyond = MalformedAnswer("NaN"), 900
        await vector_of(server)
        vectors.index.extra = vectors.index.extra * 3
        await vector_of(server)
        page = (await server.client.get("/metrics")).text
        assert 'citewell_vector_rounds_total{round="2"} 2.0' in page
        assert 'citewell_vector_rounds_total{round="3"} 1.0' in page
        assert "citewell_vector_unconfirmed_passages_total 800.0" in page
        assert 'citewell_vector_cut_short_total{reason="store_error"} 1.0' in page
