"""A store that is always too slow, one that is slow for callers only, and one that gets well."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import anyio
import numpy as np
import pytest
from numpy.typing import NDArray

from service.adapters.vectors.qdrant_server.index import ServerVectorIndex, connect
from service.adapters.vectors.qdrant_server.settings import CollectionSettings, ServerSettings
from service.core.breaker import FIRST_PAUSE_S, PROVEN, Breaker
from service.model import Workspace
from service.ports.embedding import CollectionRole, KnownCollection
from service.ports.vectors import CollectionName, Hit, VectorQuery, collection_name
from service.search.degradation import Reason
from service.search.request import ArmState
from service.search.vector_arm import VectorArm
from tests.builders import ids
from tests.vector_arm.parts import GENEROUS_S, LyingIndex, Vectors, WordEncoder, is_probing
from tests.vector_arm.test_read import bytes_of, furnished
from tests.vectors.fault_server import FaultServer, result

pytestmark = pytest.mark.anyio
SERVED_DIMENSION = 8  # of the fault server's only collection
BUDGET_S = 0.25


class SmallEncoder(WordEncoder):
    """The toy encoder for the fault server's collection."""

    dimension = SERVED_DIMENSION

    async def encode_query(self, text: str, workspace: Workspace) -> NDArray[np.float32]:
        """(8,) float32, unit length."""
        whole = await super().encode_query(text, workspace)
        row = whole.reshape(SERVED_DIMENSION, -1).sum(axis=1)
        unit: NDArray[np.float32] = row / np.linalg.norm(row)
        return unit


@dataclass(slots=True)
class Watched:
    """The server's adapter, and who asked: requests or the circuit's prober."""

    real: ServerVectorIndex
    requests: int = 0
    probes: list[int] = field(default_factory=list)

    async def search(
        self, collection: CollectionName, query: VectorQuery, deadline: float
    ) -> tuple[Hit, ...]:
        """As the adapter."""
        if is_probing():
            self.probes.append(query.limit)
        else:
            self.requests += 1
        return await self.real.search(collection, query, deadline)


@dataclass(slots=True)
class SlowServer:
    """Answers every search with one passage, after `delay` seconds."""

    delay: float = 0.5

    async def reply(self, path: str, body: bytes) -> bytes:
        """A good answer, late."""
        await asyncio.sleep(self.delay)
        payload = {"item_id": "a", "seq": 0, "window": 0}
        return result({"points": [{"id": 1, "version": 1, "score": 0.9, "payload": payload}]})


@asynccontextmanager
async def served(vectors: Vectors, slow: SlowServer) -> AsyncIterator[Watched]:
    """The house with the slow server as its store."""
    encoder = SmallEncoder("small-1")
    name = collection_name(encoder.fingerprint)
    known = KnownCollection(
        name, encoder.fingerprint, "small", SERVED_DIMENSION, CollectionRole.BUILDING, datetime.now(UTC)
    )
    await vectors.ledger.register(known)
    await vectors.ledger.activate(name)
    async with FaultServer(slow.reply) as server:
        real = ServerVectorIndex(connect(ServerSettings(server.url)), CollectionSettings())
        watched = Watched(real)
        vectors.arm = VectorArm(encoder, watched, vectors.ledger)
        yield watched
        await vectors.arm.close()
        await real.close()


async def asking(vectors: Vectors, until: Callable[[], bool]) -> None:
    """One request after the other, each in the usual budget, until something holds."""
    with anyio.fail_after(GENEROUS_S):
        while not until():
            await vectors.ask("sill", budget=BUDGET_S)
            await asyncio.sleep(0.01)


async def test_a_constantly_slow_server_costs_one_deadline(vectors: Vectors) -> None:
    """C27: a server that answers in twice the budget never passes a probe, so one request pays, and no other."""
    await furnished(vectors)
    async with served(vectors, SlowServer()) as watched:
        first = await vectors.ask("sill", budget=BUDGET_S)
        assert first.vector.reason == Reason.STORE_TIMEOUT
        assert bytes_of(first) == bytes_of(await vectors.lexically("sill"))
        await asking(vectors, lambda: len(watched.probes) >= 4)
        assert watched.requests <= 2  # one more where a stalled machine gave the first no fair time
        assert vectors.arm.breakers.store.pause >= FIRST_PAUSE_S * 2**2
        assert set(watched.probes) == {225}  # a probe asks for as much as a request does


async def test_a_server_that_gets_quick_is_back(vectors: Vectors) -> None:
    """C27: once the server answers within the budget, requests have vectors, without a restart."""
    await furnished(vectors)
    slow = SlowServer()
    async with served(vectors, slow):
        assert (await vectors.ask("sill", budget=BUDGET_S)).vector.reason == Reason.STORE_TIMEOUT
        slow.delay = 0.0
        with anyio.fail_after(GENEROUS_S):
            while (answer := await vectors.ask("sill")).vector.state is not ArmState.RAN:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert "a" in ids(answer)


async def test_a_store_slow_for_callers_only_costs_ever_fewer(
    vectors: Vectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C27: where probes pass and requests fail, each relapse doubles the time until somebody pays again."""
    await furnished(vectors)
    search = LyingIndex.search

    async def slow_for_requests(
        self: LyingIndex, collection: CollectionName, query: VectorQuery, deadline: float
    ) -> tuple[Hit, ...]:
        self.delay = 0.0 if is_probing() else 30.0
        return await search(self, collection, query, deadline)

    monkeypatch.setattr(LyingIndex, "search", slow_for_requests)
    await asking(vectors, lambda: vectors.arm.breakers.store.pause >= FIRST_PAUSE_S * 2**3)
    assert (
        len(vectors.index.limits) <= 4 + 1
    )  # four openings; a request is on its way while the circuit closes
    await vectors.arm.close()


async def test_trust_is_earned(vectors: Vectors) -> None:
    """C27: a store that is back is trusted after some good requests and some time; then all is as it was."""
    await furnished(vectors)
    vectors.index.delay = 30.0
    await vectors.ask("sill", budget=BUDGET_S)
    vectors.index.delay = 0.0
    with anyio.fail_after(GENEROUS_S):
        while (await vectors.ask("sill")).vector.state is not ArmState.RAN:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert vectors.arm.breakers.store.is_on_trial
    good = 1
    with anyio.fail_after(GENEROUS_S):
        while vectors.arm.breakers.store != Breaker():
            assert (await vectors.ask("sill")).vector.state is ArmState.RAN
            good += 1
    assert good >= PROVEN


async def test_who_has_more_time_proves_nothing(vectors: Vectors) -> None:
    """C27: a comparison of shadow mode that waited longer than requests may is no sign that the store is quick."""
    await furnished(vectors)
    vectors.index.delay = 30.0
    await vectors.ask("sill", budget=BUDGET_S)
    assert vectors.arm.breakers.store.is_open
    vectors.index.delay = 0.0
    with anyio.fail_after(GENEROUS_S):
        while vectors.arm.breakers.store.is_open:
            await vectors.ask("nothing", budget=BUDGET_S)
            await asyncio.sleep(0.02)
    before = vectors.arm.breakers.store
    vectors.index.delay = 2 * BUDGET_S
    patient = await vectors.ask("sill", budget=BUDGET_S, patience=GENEROUS_S)
    assert patient.vector.state is ArmState.RAN
    assert vectors.arm.breakers.store.trial == before.trial
