"""U18: what concerns every workspace is told to operators of every workspace, and looked at once for all."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.vectors.memory import MemoryVectorIndex
from service.core.access import EVERY_WORKSPACE, ApiKey, KeyScope
from service.ingest.keys import Gatekeeper
from service.ingest.vectors import StepOutcome, VectorWorker
from service.model import DEFAULT_WORKSPACE
from service.ports.keys import KeyCensus
from service.search.vector_arm import VectorArm
from service.settings import Settings
from service.surfaces.http import access, readiness
from service.surfaces.http.readiness import Readiness, Seen
from service.vector_parts import VectorParts
from tests.access.conftest import Locked, bearing
from tests.http.calls import assert_problem, document, part, read
from tests.http.conftest import connected
from tests.pages.reading import Page
from tests.rollout.parts import WordEncoder

pytestmark = pytest.mark.anyio
OPERATES = frozenset({KeyScope.OPERATE})


class DeafLedger:
    """A ledger whose database takes every question and never answers."""

    async def census(self) -> KeyCensus:
        """Never."""
        await asyncio.Event().wait()
        return KeyCensus(0, 0)

    async def add(self, key: ApiKey) -> None:
        """Nothing is asked of it here."""

    async def all(self) -> list[ApiKey]:
        """Nothing is asked of it here."""
        return []

    async def revoke(self, key_id: str, at: datetime) -> ApiKey | None:
        """Nothing is asked of it here."""

    async def note_use(self, used: Mapping[str, datetime]) -> None:
        """Nothing is asked of it here."""


@asynccontextmanager
async def one_behind(locked: Locked) -> AsyncIterator[None]:
    """A vector index that lacks the newest change. Everything runs on the service's own event loop."""
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


async def vectors_told(locked: Locked, key: str) -> str:
    """What the status page says of the vectors."""
    answer = await locked.send("GET", "/status", {"Cookie": f"citewell_key={key}"})
    assert answer.status_code == 200
    return Page.of(answer.text).text("//section[@aria-labelledby='behind']/dl/div[2]")


async def test_status_of_all_workspaces(locked: Locked) -> None:
    """U18: the status page tells how many points and changes there are to an operator of every workspace only."""
    single = await locked.make("another", scopes=OPERATES)
    everywhere = await locked.make(EVERY_WORKSPACE, scopes=OPERATES)
    async with one_behind(locked):
        told = await vectors_told(locked, single.text)
        assert "Ready" in told
        assert "behind" not in told.lower()
        assert not any(character.isdigit() for character in told)
        assert "1 points, 1 changes behind" in await vectors_told(locked, everywhere.text)


async def test_readiness_for_strangers(locked: Locked) -> None:
    """U18: readiness says nothing of being behind to whoever does not operate every workspace."""
    single = await locked.make("default")
    everywhere = await locked.make(EVERY_WORKSPACE, scopes=OPERATES)
    async with one_behind(locked):
        for headers, reason in (
            ({}, None),
            (bearing(single.text), None),
            (bearing(everywhere.text), "1 changes behind"),
            ({}, None),
        ):
            vectors = part(read(await locked.send("GET", "/health/ready", headers)), "parts", "vectors")
            assert vectors == {"state": "ready", "reason": reason}


async def test_one_look_for_all(locked: Locked, monkeypatch: pytest.MonkeyPatch) -> None:
    """U19: probes at the same time share one look at the parts; a later one looks again."""
    application, looks, call = locked.application, Readiness(), locked.client.blocking_portal.call

    async def probes() -> list[Seen]:
        return list(await asyncio.gather(*(looks.look(application) for _ in range(50))))

    monkeypatch.setattr(readiness, "SHARED_S", 3_600.0)
    seen = call(probes)
    assert all(one is seen[0] for one in seen)
    monkeypatch.setattr(readiness, "SHARED_S", 0.0)
    assert call(looks.look, application) is not seen[0]


async def test_metrics_do_not_wait_for_keys(
    sqlite_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U20: metrics, which have no place in the queue, are refused when a key cannot be looked up in time."""
    monkeypatch.setattr(access, "ADMIT_S", 0.1)
    async with connected(sqlite_settings) as client:
        running = client.app.state.application
        deaf = Gatekeeper(DeafLedger(), lambda: datetime.now(UTC), DEFAULT_WORKSPACE)
        client.app.state.application = replace(running, gatekeeper=deaf)
        assert_problem(await client.get("/metrics"), 503, "store_unavailable")
