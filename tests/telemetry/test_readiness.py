"""Readiness at the two ends of a process's life, and what strangers are told of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest

from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.vectors.memory import MemoryVectorIndex
from service.core.access import EVERY_WORKSPACE, KeyScope
from service.ingest.vectors import StepOutcome, VectorWorker
from service.search.vector_arm import VectorArm
from service.settings import Settings
from service.surfaces.http.app import create_app
from service.surfaces.http.lifecycle import draining_of
from service.vector_parts import VectorParts
from tests.access.conftest import Locked, bearing
from tests.http.calls import ask, document, part, read, store
from tests.http.conftest import Client
from tests.rollout.parts import WordEncoder

pytestmark = pytest.mark.anyio


async def test_draining(http: Client) -> None:
    """U19: once told to stop, the service is alive and answers, and says 503 `draining` to balancers."""
    await store(http, document("a", "sill"))
    draining_of(http.app.state).begin()
    answer = await http.get("/health/ready")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    body = read(answer)
    assert (body["ready"], body["detail"], body["code"]) == (False, "draining", "unavailable")
    assert part(body, "parts", "store") == {"state": "draining", "reason": "the service is about to stop"}
    assert (await http.get("/health/live")).status_code == 200
    assert (await ask(http, "sill"))["shown"] == 1


async def test_starting(sqlite_settings: Settings) -> None:
    """U19: before everything is open the service is alive and says 503 `starting`."""
    transport = httpx.ASGITransport(create_app(sqlite_settings))  # type: ignore[arg-type] # its lifespan never runs
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        answer = await client.get("/health/ready")
        assert answer.status_code == 503
        body = read(answer)
        assert (body["ready"], body["detail"]) == (False, "starting")
        assert part(body, "parts", "lexical")["state"] == "starting"
        assert (await client.get("/health/live")).status_code == 200


@asynccontextmanager
async def one_behind(locked: Locked) -> AsyncIterator[None]:
    """A vector index that has not followed the newest change. Everything runs on the service's own event loop."""
    application, call = locked.application, locked.client.blocking_portal.call
    ledger, index = SqlVectorLedger(application.store.engines, "float32"), MemoryVectorIndex()
    worker = VectorWorker(ledger, index, WordEncoder(), "words")

    async def follow() -> None:
        while await worker.step() is StepOutcome.WORKED:
            pass

    writer = await locked.headers("default")
    await locked.send("POST", "/v1/items", writer, document("a", "sill"))
    call(follow)
    await locked.send("POST", "/v1/items", writer, document("b", "jamb"))
    parts = VectorParts(VectorArm(WordEncoder(), index, ledger), worker, None, None)
    locked.client.app.state.application = replace(application, vectors=parts)
    yield
    call(worker.release)
    call(index.close)


async def test_strangers_are_told_no_counts(locked: Locked) -> None:
    """U18: how many changes wait is told to a key that operates everything; to all others, nothing of it."""
    operator = await locked.headers(EVERY_WORKSPACE, scopes=frozenset({KeyScope.OPERATE}))
    reader = await locked.headers("default", scopes=frozenset({KeyScope.READ}))
    single = await locked.headers("default", scopes=frozenset({KeyScope.OPERATE}))
    foreign = {**single, "x-citewell-workspace": "another"}
    broken = ({"authorization": "Basic x"}, bearing("cw_nothing"), {"x-citewell-workspace": "\x01"}, foreign)
    async with one_behind(locked):
        for headers, reason in (
            (operator, "1 changes behind"),
            (single, None),
            (reader, None),
            ({}, None),
            *((headers, None) for headers in broken),
        ):
            answer = await locked.send("GET", "/health/ready", headers)
            assert answer.status_code == 200, "a probe is no login"
            vectors = part(read(answer), "parts", "vectors")
            assert vectors == {"state": "ready", "reason": reason}, headers
        page = await locked.send("GET", "/metrics", operator)
        assert "citewell_vector_pending_changes 1.0" in page.text
        for headers, status in ((reader, 403), ({}, 401)):
            assert (await locked.send("GET", "/metrics", headers)).status_code == status
