"""What readiness says of the vector arm: the part that is not well by its own name, and figures for operators."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.sql.vector_reports import SqlVectorReports
from service.core.access import EVERY_WORKSPACE, KeyScope
from service.ports.embedding import CollectionRole, KnownCollection
from service.ports.vector_reports import NotedComparison, VectorFault, WorkerDuty, WorkerReport
from service.ports.vectors import CollectionName
from service.settings import VectorMode
from service.surfaces.http.readiness import ENCODER_ILL, FAULTS
from tests.access.conftest import Locked, locked_service
from tests.embeddings.hash_encoder import HashEncoder
from tests.http.calls import Json, document, part, read
from tests.http.reason_causes import (
    Cause,
    erring_store,
    failing_encoder,
    model_is,
    refusing_store,
    settings_of,
    silent_store,
)
from tests.rollout.conftest import upgraded
from tests.telemetry.test_metrics import samples

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
MAIN = CollectionName("passages-main-1")
MODEL = "words"


@dataclass(frozen=True, slots=True)
class Reading:
    """A service that only reads, and what another process would tell it."""

    locked: Locked
    reports: SqlVectorReports
    operator: dict[str, str]

    async def ready(self, headers: dict[str, str]) -> Json:
        """What readiness says to somebody."""
        answer = await self.locked.send("GET", "/health/ready", headers)
        assert answer.status_code == 200, "vectors never decide"
        return read(answer)

    async def until_told(self, reason: str | None) -> Json:
        """Ask until an operator is told this of the vectors: a look is shared for a while."""
        for _ in range(600):
            told = await self.ready(self.operator)
            if part(told, "parts", "vectors")["reason"] == reason:
                return told
            await asyncio.sleep(0.05)
        raise AssertionError(f"it was never told: {told}")


@pytest.fixture
async def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reading]:
    """A server with CITEWELL_VECTORS=read whose worker is elsewhere."""
    model_is(monkeypatch, HashEncoder)
    settings = settings_of(tmp_path, vectors=VectorMode.READ)
    async with locked_service(settings) as locked, upgraded(settings) as engines:
        collection = KnownCollection(MAIN, "hash", MODEL, 64, CollectionRole.ACTIVE, NOON)
        await SqlVectorLedger(engines, "float32").register(collection)
        operator = await locked.headers(EVERY_WORKSPACE, scopes=frozenset({KeyScope.OPERATE}))
        yield Reading(locked, SqlVectorReports(engines), operator)


async def test_a_reader_shows_what_the_worker_elsewhere_compared(reading: Reading) -> None:
    """U19: a server without a worker exports missing and orphan points, and when they were counted."""
    assert (
        "citewell_vector_missing" not in (await reading.locked.send("GET", "/metrics", reading.operator)).text
    )
    await reading.reports.note_comparison(NotedComparison(MAIN, NOON, 4, 2, "elsewhere:7"))
    await reading.reports.report(WorkerReport("one", "elsewhere:7", MODEL, WorkerDuty.WORKING, None, None))
    found = samples((await reading.locked.send("GET", "/metrics", reading.operator)).text)
    assert found["citewell_vector_missing{}"] == 4.0
    assert found["citewell_vector_orphan{}"] == 2.0
    assert found["citewell_vector_compared_timestamp_seconds{}"] == NOON.timestamp()
    assert found["citewell_vector_workers{health=working}"] == 1.0


async def test_operators_are_told_how_far_vectors_are(reading: Reading) -> None:
    """U18, U19: pending changes, their age and the last comparison are told to operators of everything."""
    reader = await reading.locked.headers("default", scopes=frozenset({KeyScope.READ}))
    single = await reading.locked.headers("default", scopes=frozenset({KeyScope.OPERATE}))
    await reading.reports.note_comparison(NotedComparison(MAIN, NOON, 4, 2, "elsewhere:7"))
    writer = await reading.locked.headers("default")
    await reading.locked.send("POST", "/v1/items", writer, document("a", "sill"))
    told = await reading.until_told("1 changes behind")
    vectors = part(told, "details", "vectors")
    assert isinstance(vectors["lag_seconds"], float)
    assert vectors["lag_seconds"] >= 0.0
    assert {**vectors, "lag_seconds": 0.0} == {
        "pending": 1,
        "lag_seconds": 0.0,
        "parked": 0,
        "missing": 4,
        "orphan": 2,
        "compared_at": "2026-01-02T12:00:00Z",
        "compared_by": "elsewhere:7",
        "fault": None,
        "workers": {},
    }
    for headers in (reader, single, {}):
        told = await reading.ready(headers)
        assert "details" not in told
        assert part(told, "parts", "vectors") == {"state": "ready", "reason": None}


async def test_each_part_has_its_own_name(reading: Reading) -> None:
    """U19: whatever fails a worker elsewhere is told as what it is, and no two parts share their words."""
    well = WorkerReport("one", "elsewhere:7", MODEL, WorkerDuty.WORKING, None, None)
    assert set(FAULTS) == set(VectorFault)
    assert len(set(FAULTS.values())) == len(FAULTS)
    for fault in (VectorFault.ENCODER, VectorFault.STORE_FULL, VectorFault.STORE_UNAVAILABLE):
        await reading.reports.report(replace(well, fault=fault, failure="a path: /secret"))
        told = await reading.until_told(FAULTS[fault])
        assert part(told, "parts", "vectors")["state"] == "degraded"
        assert part(told, "details", "vectors")["fault"] == fault.value
        assert part(told, "details", "vectors")["workers"] == {"failing": 1}
        assert "secret" not in str(told)
        found = samples((await reading.locked.send("GET", "/metrics", reading.operator)).text)
        assert found[f"citewell_vector_fault{{part={fault.value}}}"] == 1.0
    await reading.reports.report(well)
    told = await reading.until_told(None)
    assert part(told, "parts", "vectors")["state"] == "ready"


@pytest.mark.parametrize(
    ("cause", "reasons"),
    [
        pytest.param(failing_encoder, [ENCODER_ILL, FAULTS[VectorFault.ENCODER]], id="encoder"),
        pytest.param(refusing_store, [FAULTS[VectorFault.STORE_UNAVAILABLE]], id="refusing-store"),
        pytest.param(erring_store, [FAULTS[VectorFault.STORE_ERROR]], id="erring-store"),
        pytest.param(silent_store, [FAULTS[VectorFault.STORE_TIMEOUT]], id="silent-store"),
    ],
)
async def test_the_true_part_is_named(
    cause: Cause, reasons: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C27, U19: an encoder that fails is not told as a store that does not answer, nor silence as an error."""
    seen: set[tuple[object, object]] = set()
    async with cause(tmp_path, monkeypatch) as asked:
        for number in range(600):
            await asked.client.post("/v1/retrieve", json={"query": f"sill {number}"})
            vectors = part(read(await asked.client.get("/health/ready")), "parts", "vectors")
            seen.add((vectors["state"], vectors["reason"]))
            if vectors["reason"] == reasons[0]:
                break
            await asyncio.sleep(0.05)
    assert (vectors["state"], vectors["reason"]) == ("degraded", reasons[0])
    assert {reason for state, reason in seen if state == "degraded"} <= set(reasons)
