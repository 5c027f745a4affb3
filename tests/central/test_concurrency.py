"""Many readers and several writers at once, from two applications on one database of each kind."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from service.bootstrap import Application, application, open_store
from service.errors import AlreadySuperseded, CitewellError, SupersessionCycle
from service.ingest.lifecycle import LifecycleResult
from service.ingest.vocabulary import put_vocabulary
from service.model import (
    DEFAULT_WORKSPACE,
    Capture,
    CaptureResult,
    Factor,
    ItemId,
    Option,
    SelectionContext,
    System,
    Vocabulary,
)
from service.ports.lexical import CandidateSource
from service.search.request import ByQuery, BySelection, BySystem, RetrieveOptions, Subject
from service.settings import Settings
from tests.builders import capture, ids, store
from tests.central.machine import shown
from tests.central.model import Corpus, Hit
from tests.postgres import PostgresServer

pytestmark = pytest.mark.anyio

VOCABULARY = Vocabulary(
    systems=(System("sill", "Sill system"),),
    factors=(Factor("f", "Water"),),
    options=(Option("o", "f", "Sill"),),
)
SUBJECTS: tuple[Subject, ...] = (
    ByQuery("sill water"),
    BySystem("sill"),
    BySelection(SelectionContext(("o",))),
)
VERSIONS = 20
READERS = 12
PASSAGES = 6
EVERYTHING = RetrieveOptions(DEFAULT_WORKSPACE, limit=200)


@pytest.fixture
async def pair(fast_folder: Path, database_url: str) -> AsyncIterator[tuple[Application, Application]]:
    """Two applications on one database, each with an index of its own."""
    async with AsyncExitStack() as stack:
        first, second = [
            await stack.enter_async_context(
                application(
                    Settings(
                        data_dir=fast_folder / name,
                        database_url=database_url,
                        index_grace=0.05,
                        index_patience=60.0,
                    )
                )
            )
            for name in ("one", "two")
        ]
        yield first, second


def version(number: int) -> Capture:
    """A whole version: every passage says which version it belongs to."""
    passages = [
        f"version{number} passage{k} " + "sill " * (1 + (k + number) % PASSAGES) for k in range(PASSAGES)
    ]
    return capture("manual", *passages, title="Sill manual", version=str(number))


@dataclass(slots=True)
class Writing:
    """One writer's progress: what the corpus said after each version, and the last version acknowledged."""

    corpus: Corpus
    expected: list[list[list[Hit]]] = field(default_factory=list)
    versions: dict[ItemId, int] = field(default_factory=dict)
    acknowledged: int = -1
    done: bool = False

    async def write(self, app: Application) -> None:
        try:
            for number in range(VERSIONS):
                result = await app.capturing.capture(DEFAULT_WORKSPACE, version(number))
                self.acknowledged = number
                self.corpus.store(version(number), result.item_id)
                self.versions[result.item_id] = number
                self.expected.append([self.corpus.answer(subject, None) for subject in SUBJECTS])
        finally:
            self.done = True


@dataclass(frozen=True, slots=True)
class Seen:
    """What one read saw, and the newest version acknowledged before it began."""

    subject: int
    floor: int
    hits: list[Hit]


async def read(app: Application, number: int, writing: Writing) -> list[Seen]:
    """Read without a pause until the writer is done."""
    seen: list[Seen] = []
    while not writing.done:
        floor, subject = writing.acknowledged, (number + len(seen)) % len(SUBJECTS)
        answer = await app.retriever.retrieve(SUBJECTS[subject], EVERYTHING)
        if floor >= 0:
            seen.append(Seen(subject, floor, shown(answer)))
    return seen


async def test_readers_see_versions_whole_and_never_stale(pair: tuple[Application, Application]) -> None:
    """C16: beside a writer in a loop, every read by either process is one version's whole and exact ranking."""
    first, second = pair
    others = [capture(f"other{k}", "sill water", "water") for k in range(3)]
    writing = Writing(Corpus(vocabulary=VOCABULARY))
    await put_vocabulary(first.store, DEFAULT_WORKSPACE, VOCABULARY)
    for other, result in zip(others, await store(first, *others), strict=True):
        writing.corpus.store(other, result.item_id)
    reading = [read(pair[number % 2], number, writing) for number in range(READERS)]
    finished = asyncio.gather(*reading)
    await writing.write(second)
    reads = [one for seen in await finished for one in seen]
    assert len(reads) >= READERS
    for seen in reads:
        versions = {writing.versions[hit[0]] for hit in seen.hits if hit[0] in writing.versions}
        assert len(versions) == 1, "mixed versions"
        (number,) = versions
        assert number >= seen.floor, "stale after the acknowledgement"
        assert seen.hits == writing.expected[number][seen.subject]


async def test_a_crowd_of_readers_does_not_starve_the_index(pair: tuple[Application, Application]) -> None:
    """Readers that wait for the index hold connections; the index follows the log all the same."""
    first, second = pair
    await put_vocabulary(first.store, DEFAULT_WORKSPACE, VOCABULARY)
    await store(first, version(0))
    await second.retriever.retrieve(SUBJECTS[1], EVERYTHING)
    await second.lexical.catch_up(DEFAULT_WORKSPACE)
    for number in range(1, 4):
        await store(first, version(number))
        async with asyncio.timeout(30):  # half the patience that a starved reader would use up
            answers = await asyncio.gather(
                *(second.retriever.retrieve(SUBJECTS[k % 3], EVERYTHING) for k in range(60))
            )
        for answer in answers:
            assert answer.lexical.source == CandidateSource.INDEX
            assert {result.provenance.version for result in answer.results} == {str(number)}


async def test_two_writers_supersede_at_once(pair: tuple[Application, Application]) -> None:
    """C17: of two supersessions that close a cycle, or of one item by two others, one is refused."""
    first, second = pair
    for round_ in range(6):
        a, b, c, d = (ItemId(f"{name}{round_}") for name in "abcd")
        await store(first, *(capture(name, "sill", item_id=name) for name in (a, b, c, d)))
        crossed = await outcomes(
            first.lifecycle.supersede(DEFAULT_WORKSPACE, a, b),
            second.lifecycle.supersede(DEFAULT_WORKSPACE, b, a),
        )
        assert [type(error) for error in crossed if error] == [SupersessionCycle]
        forked = await outcomes(
            first.lifecycle.supersede(DEFAULT_WORKSPACE, c, a if crossed[0] else b),
            second.lifecycle.supersede(DEFAULT_WORKSPACE, c, d),
        )
        assert [type(error) for error in forked if error] == [AlreadySuperseded]
        live = ids(await first.retriever.retrieve(ByQuery("sill"), EVERYTHING))
        assert sorted(item_id for item_id in live if item_id.endswith(str(round_))) == sorted(
            [a if crossed[0] else b, d]
        )


async def outcomes(*writes: Awaitable[LifecycleResult]) -> list[CitewellError | None]:
    """Each write's error, or None."""
    found = await asyncio.gather(*writes, return_exceptions=True)
    for outcome in found:
        if isinstance(outcome, BaseException) and not isinstance(outcome, CitewellError):
            raise outcome
    return [outcome if isinstance(outcome, CitewellError) else None for outcome in found]


async def test_two_writers_capture_one_source(pair: tuple[Application, Application]) -> None:
    """C16: captures of one source at once queue up: one chain, one live item, no capture lost."""
    results: Sequence[CaptureResult] = await asyncio.gather(
        *(
            app.capturing.capture(DEFAULT_WORKSPACE, capture("manual", f"sill text{n} of writer{w}"))
            for w, app in enumerate(pair)
            for n in range(6)
        )
    )
    stored = {result.item_id for result in results}
    superseded = [result.superseded for result in results if result.superseded is not None]
    assert len(stored) == len(results) == 12
    assert len(set(superseded)) == len(superseded) == 11
    (live,) = stored - set(superseded)
    for app in pair:
        assert ids(await app.retriever.retrieve(ByQuery("sill"), EVERYTHING)) == [live]
        async with app.store.snapshot() as snapshot:
            chain = await snapshot.supersession(DEFAULT_WORKSPACE, live)
        assert {item.provenance.item_id for item in chain} == stored


async def test_the_same_capture_twice_at_once(pair: tuple[Application, Application]) -> None:
    """C16: of two equal captures at once one is stored and the other changes nothing."""
    results = await asyncio.gather(
        *(app.capturing.capture(DEFAULT_WORKSPACE, capture("manual", "sill")) for app in (*pair, *pair))
    )
    assert sorted(result.unchanged for result in results) == [False, True, True, True]
    assert len({result.item_id for result in results}) == 1


async def test_a_follower_misses_nothing(fast_folder: Path, postgres_server: PostgresServer) -> None:
    """C14: numbers of the change log are in commit order, so that whoever follows it by number misses none."""
    writers, writes = 4, 100
    with postgres_server.database() as url:
        async with AsyncExitStack() as stack:
            settings = Settings(data_dir=fast_folder, database_url=url)
            stores = [await stack.enter_async_context(open_store(settings)) for _ in range(writers + 1)]
            followed: list[int] = []

            async def write(number: int) -> None:
                for _ in range(writes):
                    async with stores[number].transaction(DEFAULT_WORKSPACE) as transaction:
                        await transaction.replace_vocabulary(Vocabulary())

            async def follow() -> None:
                last = 0
                while last < writers * writes:
                    for change in await stores[-1].changes(DEFAULT_WORKSPACE, last, 1_000):
                        last = change.seq
                        followed.append(last)

            async with asyncio.timeout(60):
                await asyncio.gather(follow(), *(write(number) for number in range(writers)))
            assert followed == list(range(1, writers * writes + 1))
