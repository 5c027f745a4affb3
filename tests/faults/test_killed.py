"""A writing process killed with -9 at random points: the next start makes index and rows agree."""

import json
import multiprocessing
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from service.bootstrap import Application, application
from service.core.retrieval import CorpusItem, retrieve_passages
from service.core.tokenize import query_terms
from service.model import DEFAULT_WORKSPACE, ContentType, ItemId, PassageText
from service.search.request import ByQuery
from tests.central.machine import shown
from tests.central.model import EVERYTHING, LONG_AGO, hits
from tests.faults.corpus import ask, document, rebuilds, settings_in, upkeep
from tests.faults.driver import write_until_killed

pytestmark = pytest.mark.anyio

KILLS = 20
QUERIES = ("sill door w3", "NW-SL45/2", "成语接龙 w5")
FORKSERVER = multiprocessing.get_context("forkserver")


@pytest.fixture(scope="module", autouse=True)
def preloaded() -> Iterator[None]:
    """The writing processes start from one that has imported everything."""
    FORKSERVER.set_forkserver_preload(["tests.faults.driver"])
    return iter([None])


def rows(home: Path) -> list[CorpusItem]:
    """All items as the rows have them."""
    with closing(sqlite3.connect(home / "citewell.db")) as connection:
        texts: dict[int, list[PassageText]] = {}
        for item_key, seq, heading, text, scorable in connection.execute(
            "SELECT item_key, seq, heading, text, scorable FROM passages ORDER BY item_key, seq"
        ):
            texts.setdefault(item_key, []).append(PassageText(seq, heading, text, bool(scorable)))
        return [
            CorpusItem(
                item_id=ItemId(item_id),
                title=title,
                content_type=ContentType(kind),
                passages=tuple(texts[key]),
                retired_at=None if retired is None else LONG_AGO,
                superseded_by=None if successor is None else ItemId(successor),
            )
            for key, item_id, title, kind, retired, successor in connection.execute(
                "SELECT item_key, item_id, title, content_type, retired_at, superseded_by FROM items"
            )
        ]


def started(home: Path, seed: int) -> ForkServerProcess:
    """A process that writes, once it has begun."""
    home.mkdir(parents=True, exist_ok=True)
    acknowledged = home / "acknowledged"
    before = acknowledged.stat().st_size if acknowledged.exists() else 0
    process = FORKSERVER.Process(target=write_until_killed, args=(str(home), seed), daemon=True)
    process.start()
    until = time.monotonic() + 60
    while not acknowledged.exists() or acknowledged.stat().st_size == before:
        assert process.is_alive(), "the writer died by itself"
        assert time.monotonic() < until, "the writer does not start"
        time.sleep(0.005)
    return process


def slots(home: Path) -> list[str]:
    """The index slots that exist."""
    return sorted(path.parent.name for path in home.glob("lexical/*/lock"))


def kill(process: ForkServerProcess) -> None:
    """Kill a process as -9 does."""
    process.kill()
    process.join()


def kill_at_random(home: Path, seed: int) -> None:
    """Let a process write, and kill it somewhere in the middle of it."""
    process = started(home, seed)
    time.sleep(random.Random(seed).uniform(0.0, 0.4))  # noqa: S311 - when, not a secret
    kill(process)


async def assert_agree(app: Application, corpus: list[CorpusItem]) -> None:
    """The index answers what the rows say."""
    for query in QUERIES:
        expected = hits(retrieve_passages(corpus, query_terms(query), EVERYTHING))
        assert shown(await ask(app, ByQuery(query))) == expected[:200]


def assert_kept(home: Path, corpus: list[CorpusItem]) -> None:
    """What was acknowledged is stored, and what it made stale is stale."""
    known = {item.item_id: item for item in corpus}
    for line in (home / "acknowledged").read_text().splitlines():
        said = json.loads(line)
        if stored := said.get("stored"):
            assert stored in known
        if superseded := said.get("superseded"):
            assert known[superseded].superseded_by is not None
        if retired := said.get("retired"):
            assert known[retired].retired_at is not None


async def test_killed_in_the_middle_of_captures(home: Path) -> None:
    """C16: after each of many kills nothing acknowledged is lost, and index and rows agree exactly."""
    for seed in range(KILLS):
        kill_at_random(home, seed)
        async with application(settings_in(home)) as app:
            corpus = rows(home)
            assert_kept(home, corpus)
            await assert_agree(app, corpus)
            live = [item for item in corpus if item.retired_at is None and item.superseded_by is None]
            await upkeep(app)
            status = app.lexical.status()[DEFAULT_WORKSPACE]
            assert status.documents == sum(len(item.passages) for item in live)


async def test_a_crash_costs_a_replay_and_no_rebuild(home: Path) -> None:
    """C12: an index whose process was killed takes up the log where its checkpoint left it."""
    async with application(settings_in(home)) as app:
        await app.capturing.capture(DEFAULT_WORKSPACE, document(0))
    for seed in (100, 101, 102):
        kill_at_random(home, seed)
        async with application(settings_in(home)) as app:
            await assert_agree(app, rows(home))
            assert rebuilds(app) == 0


async def test_a_slot_held_by_a_living_process(home: Path) -> None:
    """C14: a second process on the same folder keeps its index in the next slot, and both stay exact."""
    process = started(home, 7)
    try:
        async with application(settings_in(home)) as app:
            assert slots(home) == ["slot-0", "slot-1"]
            for _ in range(5):
                scores = [hit[2] for hit in shown(await ask(app, ByQuery(QUERIES[0])))]
                assert scores == sorted(scores, reverse=True)
            kill(process)
            await assert_agree(app, rows(home))
    finally:
        kill(process)
    async with application(settings_in(home)) as app:  # the first slot is free again
        await assert_agree(app, rows(home))
