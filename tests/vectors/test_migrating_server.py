"""Changing the model inside a running server: it builds beside what serves, switches, and shows the new one."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from embeddings.encoder import Encoder
from embeddings.encoder_settings import EncoderSettings
from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.vectors.memory import MemoryVectorIndex
from service.bootstrap import Application
from service.ingest.model_change import ModelChange
from service.ingest.vector_runner import VectorRunner
from service.ingest.vectors import StepOutcome, VectorWorker
from service.ports.embedding import CollectionRole
from service.ports.vector_reports import VectorFault
from service.settings import Settings, VectorMode
from tests.builders import capture
from tests.builders import store as stored
from tests.embeddings.hash_encoder import HashEncoder, hash_fingerprint
from tests.embeddings.tiny_model import save_static
from tests.http.calls import ask, document, part, read, store
from tests.http.conftest import Client, connected
from tests.vector_arm.parts import WordEncoder
from tests.vectors.test_migration import WatchedEncoder

pytestmark = pytest.mark.anyio

PATIENCE_S = 120.0
OLD, NEW = "old words", "new words"


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110 - a server has no event
            await asyncio.sleep(0.05)


def application(client: Client) -> Application:
    """What the server is made of."""
    found: Application = client.app.state.application
    return found


async def metric(client: Client, name: str) -> float | None:
    """A sample by its name and labels, or None when it is not shown."""
    page = (await client.get("/metrics")).text
    found = [line.rpartition(" ")[2] for line in page.splitlines() if line.startswith(f"{name} ")]
    return float(found[0]) if found else None


async def ran(client: Client, query: str) -> bool:
    """Whether vectors had a say in an answer."""
    return part(await ask(client, query), "arms", "vector")["state"] == "ran"


def changing(folder: Path, old: str, new: str) -> Settings:
    """A server on Qdrant Edge that is told to change its model, with the flag on."""
    return Settings(
        data_dir=folder,
        vectors=VectorMode.ON,
        embedding_model=old,
        embedding_next_model=new,
        embedding_hub=False,
        vector_budget=30.0,
        flag_provider="env",  # type: ignore[arg-type] # as the environment says it
        hybrid_retrieval="on",
    )


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Hashed words in place of models, each name another model; the new one loads once this is set."""
    opened = threading.Event()

    def load(settings: EncoderSettings) -> Encoder:
        if settings.model == NEW:
            assert opened.wait(PATIENCE_S)
        return HashEncoder(fingerprint=hash_fingerprint(settings.model))

    monkeypatch.setattr("embeddings.encoder_service.load_encoder", load)
    return opened


@pytest.fixture
async def http(tmp_path: Path, gate: threading.Event) -> AsyncIterator[Client]:
    """A server that serves three documents with the old model while it waits for the new one."""
    async with connected(changing(tmp_path / "data", OLD, NEW)) as client:
        await store(client, *(document(f"d{number}", f"sill number {number}") for number in range(3)))

        async def served() -> bool:
            return await ran(client, "sill") and await metric(client, "citewell_vector_points") == 3.0

        await until(served)
        try:
            yield client
        finally:
            gate.set()


async def test_a_running_server_changes_its_model(http: Client, gate: threading.Event) -> None:
    """E16: a server answers by the old model until the new collection is built, then by the new, unrestarted."""
    parts = application(http).vectors
    assert parts.model == OLD
    (old,) = await parts.worker.ledger.collections() if parts.worker else ()
    gate.set()

    async def changed() -> bool:
        assert await ran(http, "sill")  # all the time
        return parts.model == NEW

    await until(changed)
    assert await ran(http, "sill")
    assert parts.worker is not None
    known = await parts.worker.ledger.collections()
    assert [(one.model, one.role) for one in known] == [
        (OLD, CollectionRole.RETIRED),
        (NEW, CollectionRole.ACTIVE),
    ]
    assert old.name != known[1].name
    await store(http, document("later", "lock"))

    async def followed() -> bool:
        return await metric(http, "citewell_vector_pending_changes") == 0.0

    await until(followed)
    assert await metric(http, "citewell_vector_points") == 4.0


async def test_what_is_shown_is_of_the_new_model(http: Client, gate: threading.Event) -> None:
    """E16: after the switch page, gauges and counters are of the new model; nothing is left of the old one."""
    parts, old_encoder = application(http).vectors, application(http).vectors.encoder
    for _ in range(5):
        assert await ran(http, "sill")
    page = (await http.get("/status")).text
    assert OLD in page
    gate.set()

    async def changed() -> bool:
        return parts.model == NEW

    await until(changed)
    assert parts.encoder is not old_encoder
    assert parts.runner is not None
    assert parts.runner.worker is parts.worker
    page = (await http.get("/status")).text
    assert NEW in page
    assert await metric(http, 'citewell_query_vector_lookups_total{outcome="hit"}') == 0.0
    assert await ran(http, "door")
    assert await ran(http, "door")
    assert await metric(http, 'citewell_query_vector_lookups_total{outcome="miss"}') == 1.0
    assert await metric(http, 'citewell_query_vector_lookups_total{outcome="hit"}') == 1.0
    assert await metric(http, 'citewell_vector_worker_passages_total{done="encoded"}') == 3.0

    async def compared() -> bool:
        missing, orphan = "citewell_vector_missing", "citewell_vector_orphan"
        return (await metric(http, missing), await metric(http, orphan)) == (0.0, 0.0)

    await until(compared)
    ready = read(await http.get("/health/ready"))
    assert part(ready, "parts", "vectors")["state"] == "ready"


async def test_a_server_that_is_told_again_goes_on(tmp_path: Path, gate: threading.Event) -> None:
    """E16: started again with the same settings, a server that has changed searches by the new model."""
    gate.set()
    for _ in range(2):
        async with connected(changing(tmp_path / "data", OLD, NEW)) as client:
            await store(client, document("a", "sill"))
            parts = application(client).vectors

            async def changed(client: Client = client) -> bool:
                return application(client).vectors.model == NEW and await ran(client, "sill")

            await until(changed)
            assert parts.worker is not None
            assert len(await parts.worker.ledger.collections()) == 2


@pytest.mark.model
async def test_two_real_models(tmp_path: Path) -> None:
    """E16: a server changes from a real sentence-transformers folder to the small real model, without a pause."""
    first = str(save_static(tmp_path))
    async with connected(changing(tmp_path / "data", first, "minilm")) as client:
        await store(
            client, document("a", "a threshold of ten millimetres"), document("b", "noise of the street")
        )

        async def changed() -> bool:
            return application(client).vectors.model == "minilm"

        await until(changed)
        answer = await ask(client, "height of the door sill")
        assert part(answer, "arms", "vector")["state"] == "ran"
        found = answer["results"]
        assert isinstance(found, list)
        assert found[0]["provenance"]["item_id"] == "a"
        assert await metric(client, "citewell_vector_points") == 2.0


async def test_a_build_that_fails_is_tried_again(sqlite_app: Application) -> None:
    """E16: whatever stops a build, the old model serves on, the reason is told once, and another try follows."""
    ledger, index = SqlVectorLedger(sqlite_app.store.engines, "float32"), MemoryVectorIndex()
    await stored(sqlite_app, capture("a", "sill", item_id="a"))
    old = VectorWorker(ledger, index, WordEncoder(), OLD)
    while await old.step() is StepOutcome.WORKED:
        pass
    faults = [ValueError("a defect that quotes sill"), ValueError("another"), None]
    failures: list[tuple[str | None, VectorFault | None]] = []

    async def fail() -> None:
        failures.append((runner.failure, runner.fault))
        fault = faults.pop(0) if faults else None
        if fault is not None:
            raise fault

    runner = VectorRunner(VectorWorker(ledger, index, WatchedEncoder("words-2", fail), NEW))
    switched, told = asyncio.Event(), list[str]()
    change = asyncio.create_task(ModelChange(runner, switched.set, told.append, first_pause=0.01).run())
    async with asyncio.timeout(PATIENCE_S):
        await switched.wait()
    assert [one.role for one in await ledger.collections()] == [CollectionRole.RETIRED, CollectionRole.ACTIVE]
    assert told == ["unexpected ValueError"]
    assert failures[1] == ("unexpected ValueError", VectorFault.DEFECT)
    assert (runner.failure, runner.fault) == (None, None)
    runner.stop()
    async with asyncio.timeout(PATIENCE_S):
        await change
