"""A whole service over HTTP whose vectors are in a Qdrant server, reached by its URL, that misbehaves.

One server serves all the tests of a database, so each shows besides that nothing is left of the fault before.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest
from qdrant_client import models

from embeddings.encoder_service import EncoderService
from service.adapters.encoder import ServiceEncoder
from service.adapters.vectors.qdrant_server.points import matching
from service.bootstrap import open_store, utc_now
from service.ingest.absent_index import AbsentIndex
from service.ingest.capture import Capturing
from service.ingest.migration import migrate
from service.ingest.vectors import VectorWorker
from service.model import DEFAULT_WORKSPACE, Workspace
from service.ports.embedding import CollectionRole
from service.settings import Settings
from service.vector_parts import deployment_of, open_index, open_ledger
from tests.builders import capture
from tests.embeddings.hash_encoder import HashEncoder, hash_fingerprint
from tests.http.calls import document
from tests.vector_faults.conftest import ON_SQLITE, Stored, assert_lexical_where_degraded, folder_in_memory
from tests.vector_faults.misbehaviour import (
    Misbehaving,
    answering,
    boundless,
    deaf,
    ghosts,
    late,
    lying,
    no_numbers,
    refusing,
    repeating,
    saying,
    silent,
    unreadable,
)
from tests.vector_faults.orders import House, words
from tests.vector_faults.qdrant_server import QdrantServer
from tests.vector_faults.servers import (
    FLAG_ON,
    PATIENCE_S,
    QUERIES,
    SOURCES,
    VECTORS_ON,
    Answered,
    Server,
    back,
    served,
    until,
)
from tests.vectors.parts import soon

pytestmark = pytest.mark.anyio

BUDGET_S = 1.0
SOON_S = 20.0  # two budgets, however slow the machine
FIRST_ROUND = 225  # points asked for at first
THEIRS = Workspace("theirs")
COPIES = 2  # of the corpus that the other workspace has
STALE = 10  # items, of 25 passages each


@dataclass(frozen=True, slots=True)
class Stand:
    """The service, the store that it was told to use, and what it answers while all is well."""

    server: Server
    store: QdrantServer
    stored: Stored
    house: House
    hybrid: Mapping[str, Answered]

    async def serving(self) -> str:
        """The only collection, as the store calls it."""
        (name,) = await self.store.names()
        return name

    async def nearest(self, query: str, limit: int, workspace: Workspace | None) -> list[models.Payload]:
        """What the store's nearest points are of."""
        (row,) = HashEncoder().encode_queries([query])
        only = matching(workspace)
        request = models.QueryRequest(query=row.tolist(), filter=only, limit=limit, with_payload=True)
        found = await self.store.truth(await self.serving(), request)
        return [point.payload or {} for point in found]

    async def counted(self, reason: str) -> float:
        """How many reads went without vectors for that reason."""
        sample = f'citewell_vector_reads_total{{reason="{reason}",state="degraded"}}'
        found = await self.server.metric(sample)
        assert found is not None, sample
        return found

    async def at_once(self) -> list[tuple[str, Answered]]:
        """Every query, all at the same time."""
        return list(zip(QUERIES, await asyncio.gather(*map(self.server.ask, QUERIES)), strict=True))

    async def assert_as_ever(self) -> None:
        """Every query's answer is the hybrid one; where the machine was too slow for one, it is asked again."""
        for query, hybrid in self.hybrid.items():

            async def asked(query: str = query, hybrid: Answered = hybrid) -> bool:
                answer = await self.server.ask(query)
                assert_lexical_where_degraded([(query, answer)], self.stored, {"store_timeout"})
                assert not answer.ran or answer == hybrid
                return answer.ran

            await until(asked)

    async def recovers(self) -> None:
        """The answers become what they were, and nothing stays pending."""
        await back(self.server, self.hybrid)
        await self.server.settled()

    async def proves_well(self, seconds: float) -> None:
        """Asks on for as long as a fault was felt: the next is then a new one to the service, and no relapse."""
        proven = time.monotonic() + seconds
        await self.assert_as_ever()
        while time.monotonic() < proven:
            await self.assert_as_ever()


@pytest.fixture(scope="module")
async def stand(stored: Stored, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stand]:
    """Everything in place and embedded, on each kind of database."""
    folder = tmp_path_factory.mktemp("stand") / "home"
    with folder_in_memory(folder) as home, stored.copied(home) as house:
        await their_items(house)
        async with QdrantServer() as store:
            remote = {"CITEWELL_QDRANT_URL": store.url, "CITEWELL_VECTOR_BUDGET": str(BUDGET_S)}
            async with served(house, {**VECTORS_ON, **FLAG_ON, **remote}) as server:
                await server.settled()
                yield Stand(server, store, stored, house, await steady(server))


async def steady(server: Server) -> Mapping[str, Answered]:
    """The answers, all of them hybrid."""
    found: dict[str, Answered] = {}

    async def all_ran() -> bool:
        found.update(await server.ask_all())
        return all(answer.ran for answer in found.values())

    await until(all_ran)
    return found


async def their_items(house: House) -> None:
    """The corpus several times over, as another workspace's."""
    async with open_store(Settings(data_dir=house.data_dir, database_url=house.database_url)) as store:
        capturing = Capturing(store, AbsentIndex(), utc_now)
        for number in range(SOURCES * COPIES):
            source = number % SOURCES
            texts = [words(source * 5 + k, 5 + 24 * k) for k in range(3)]
            theirs = capture(f"{number}.md", *texts, title=f"Source {source}", item_id=f"a{number}")
            await capturing.capture(THEIRS, theirs)


FAULTS: Mapping[str, tuple[Misbehaving, str]] = {
    "refuses connections": (refusing, "store_unavailable"),
    "accepts and never answers": (answering(silent), "store_timeout"),
    "answers after the deadline": (answering(late(1.5 * BUDGET_S)), "store_timeout"),
    "answers with an error": (answering(saying(500)), "store_error"),
    "answers by halves": (answering(unreadable), "store_error"),
    "scores NaN": (lying(no_numbers), "store_error"),
}
LIES: Mapping[str, Misbehaving] = {
    "ids that SQL does not have": lying(ghosts),
    "ids of another workspace": lying(boundless),
    "ids several times": lying(repeating),
}
# Where a read waits with a snapshot in hand, and where rows decide, the database has a part in it.
FAULTS_ON_BOTH = ["refuses connections", "accepts and never answers"]
LIES_ON_BOTH = ["ids of another workspace"]


@pytest.mark.parametrize("fault", FAULTS_ON_BOTH)
async def test_a_store_that_fails(stand: Stand, fault: str) -> None:
    """C27: while nobody answers every answer is the lexical one to the byte, says why, and is counted; when the
    store is well again so are the answers, without a restart.
    """
    await assert_survived(stand, *FAULTS[fault])


@ON_SQLITE
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in FAULTS_ON_BOTH])
async def test_a_store_that_fails_otherwise(stand: Stand, fault: str) -> None:
    """C27: the same holds for answers that are late, errors, damaged or no numbers."""
    await assert_survived(stand, *FAULTS[fault])


async def assert_survived(stand: Stand, misbehaving: Misbehaving, reason: str) -> None:
    """Lexical answers while it lasts, at once and one by one; hybrid ones afterwards."""
    counted, began = await stand.counted(reason), time.monotonic()
    async with misbehaving(stand.store), asyncio.timeout(SOON_S):
        answers = [*await stand.at_once(), *(await stand.server.ask_all()).items()]
    assert {answer.reason for _, answer in answers} == {reason}
    assert_lexical_where_degraded(answers, stand.stored, {reason})
    assert await stand.counted(reason) == counted + len(answers)
    await stand.recovers()
    await stand.proves_well(time.monotonic() - began)


@pytest.mark.parametrize("lie", LIES_ON_BOTH)
async def test_a_store_that_lies(stand: Stand, lie: str) -> None:
    """C15: ids of another workspace take nobody's place: the answer is the one that the truth gives."""
    await assert_undeceived(stand, LIES[lie])


@ON_SQLITE
@pytest.mark.parametrize("lie", [lie for lie in LIES if lie not in LIES_ON_BOTH])
async def test_a_store_that_lies_otherwise(stand: Stand, lie: str) -> None:
    """C15: nor do ids that are no passage, or that come again."""
    await assert_undeceived(stand, LIES[lie])


async def assert_undeceived(stand: Stand, lying: Misbehaving) -> None:
    """The vectors still have their say, and it is the same."""
    assert all(stand.hybrid[query].kept != stand.stored.lexical[query].kept for query in QUERIES)
    async with lying(stand.store):
        await stand.assert_as_ever()


@ON_SQLITE
async def test_their_points_are_the_nearest(stand: Stand) -> None:
    """C15: without the filter the other workspace's points fill most of the first round of candidates."""
    for query in QUERIES:
        nearest = await stand.nearest(query, FIRST_ROUND, None)
        assert sum(payload["workspace"] == THEIRS for payload in nearest) > FIRST_ROUND // 2


@ON_SQLITE
async def test_a_collection_of_another_dimension(stand: Stand) -> None:
    """C27: with a collection of another dimension in the place of its own every answer is the lexical one, and
    once that is gone the service makes and fills its own again.
    """
    name = await stand.serving()
    await stand.store.replace(name, 8)
    answers = [*await stand.at_once(), *(await stand.server.ask_all()).items()]
    assert {answer.reason for _, answer in answers} == {"fingerprint_mismatch"}
    assert_lexical_where_degraded(answers, stand.stored, {"fingerprint_mismatch"})
    await stand.store.points.delete_collection(name)
    await stand.recovers()


@asynccontextmanager
async def another_process(stand: Stand, model: str) -> AsyncIterator[VectorWorker]:
    """What a command has in hand that changes the model of the service's vectors."""
    house = stand.house
    settings = Settings(data_dir=house.data_dir, database_url=house.database_url, qdrant_url=stand.store.url)
    service = EncoderService(lambda: HashEncoder(hash_fingerprint(model)))
    service.start()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(service.close)
        await service.wait_ready(PATIENCE_S)
        engines = (await stack.enter_async_context(open_store(settings))).engines
        index = open_index(settings, await deployment_of(settings, engines))
        stack.push_async_callback(index.close)
        yield VectorWorker(open_ledger(settings, engines), index, ServiceEncoder(service), model)


async def drop(worker: VectorWorker, role: CollectionRole) -> None:
    """Remove the only collection of that role from the store and from the rows."""
    (found,) = [one for one in await worker.ledger.collections() if one.role is role]
    await worker.index.drop(found.name, soon())
    await worker.ledger.forget(found.name)


async def test_a_collection_of_another_fingerprint(stand: Stand) -> None:
    """C24, C27: a service whose model's collection was given up for another model's never searches that: it
    answers lexically and says so; and when the other is gone it makes and fills its own again.
    """
    async with another_process(stand, "another") as worker:
        assert (await migrate(worker)).switched
        await drop(worker, CollectionRole.RETIRED)
        search = f"POST /collections/{await stand.serving()}/points/query"
        searches = stand.store.asked.count(search)
        answers: list[tuple[str, Answered]] = []

        async def told() -> bool:
            answers.extend(await stand.at_once())
            return answers[-1][1].reason == "fingerprint_mismatch"

        await until(told)
        assert_lexical_where_degraded(answers, stand.stored, {"no_vectors", "fingerprint_mismatch"})
        answers = await stand.at_once()
        assert {answer.reason for _, answer in answers} == {"fingerprint_mismatch"}
        assert_lexical_where_degraded(answers, stand.stored, {"fingerprint_mismatch"})
        assert stand.store.asked.count(search) == searches
        await drop(worker, CollectionRole.ACTIVE)
    await stand.recovers()


async def test_a_store_that_lags(stand: Stand) -> None:
    """C14, C15: with 250 passages retired or superseded, their points still there and nearer than all others,
    the whole first round of candidates is stale, and every answer is the one of an index that has caught up.
    """
    # It is the last test: what is stored here changes the cursors of all answers from now on.
    server, query = stand.server, QUERIES[0]
    points = await server.metric("citewell_vector_points")
    texts = [[f"{query} {item} {number}" for number in range(25)] for item in range(STALE)]
    await server.store(*(document(f"old{n}", *texts[n], title="Old") for n in range(STALE)))
    await server.settled()
    async with answering(deaf)(stand.store):
        for number in range(STALE):
            await made_stale(server, f"old{number}", by="s0" if number % 2 else None)
        lagging = await steady(server)
        nearest = await stand.nearest(query, FIRST_ROUND, DEFAULT_WORKSPACE)
        assert all(str(payload["item_id"]).startswith("old") for payload in nearest)
    assert {q: answer.passages for q, answer in lagging.items()} == {
        q: answer.passages for q, answer in stand.hybrid.items()
    }
    await back(server, lagging)
    await server.settled()
    assert await server.metric("citewell_vector_points") == points
    assert await server.ask_all() == lagging


async def made_stale(server: Server, item_id: str, by: str | None) -> None:
    """Retire an item, or supersede it by another."""
    path = f"/v1/items/{item_id}"
    told = (f"{path}/retire", None) if by is None else (f"{path}/supersede", {"by": by})
    answer = await server.client.post(told[0], json=told[1])
    assert answer.status_code == 200, answer.text
