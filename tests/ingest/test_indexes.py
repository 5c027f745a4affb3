"""The index beside a long write, and a process that has none."""

from pathlib import Path

import pytest

from service.bootstrap import Application, writing
from service.errors import LexicalIndexUnavailable
from service.ingest.absent_index import AbsentIndex
from service.ingest.trailing_index import TrailingIndex
from service.model import DEFAULT_WORKSPACE, ItemId
from service.settings import Settings
from tests.builders import ask, capture, ids, store
from tests.ingest.parts import capture_line, ingest, request, write_lines

pytestmark = pytest.mark.anyio


async def test_an_ingest_ends_with_an_index_that_is_up_to_date(
    sqlite_app: Application, tmp_path: Path
) -> None:
    """What an ingest reports as stored is in this process's index when it returns."""
    write_lines(tmp_path / "a.jsonl", [capture_line(n, f"sill {n}") for n in range(3_000)])
    await ingest(sqlite_app, request(tmp_path))
    (status,) = sqlite_app.lexical.status().values()
    assert (status.applied, status.documents) == (await sqlite_app.store.head(), 3_000)


async def test_a_trailing_index_reads_as_the_index_it_trails(sqlite_app: Application) -> None:
    """Views come from the index itself, once it has settled."""
    trailing = TrailingIndex(sqlite_app.lexical)
    await store(sqlite_app, capture("a", "the sill"))
    await trailing.catch_up(DEFAULT_WORKSPACE)
    await trailing.settle(DEFAULT_WORKSPACE)
    head = await sqlite_app.store.head()
    latest = trailing.latest(DEFAULT_WORKSPACE, ["sill"])
    assert latest is not None
    assert latest.seq == head
    async with sqlite_app.store.snapshot() as snapshot:
        assert (await trailing.view(DEFAULT_WORKSPACE, ["sill"], snapshot)).seq == head


async def test_an_absent_index_proposes_nothing(sqlite_app: Application) -> None:
    """A process without an index says so to whoever would read from it."""
    absent = AbsentIndex()
    assert absent.latest(DEFAULT_WORKSPACE, ["sill"]) is None
    async with sqlite_app.store.snapshot() as snapshot:
        with pytest.raises(LexicalIndexUnavailable):
            await absent.view(DEFAULT_WORKSPACE, ["sill"], snapshot)


async def test_a_writer_without_an_index_is_seen_by_readers(sqlite_app: Application) -> None:
    """C14: what a process without an index retires is gone in every other process at its next read."""
    await store(sqlite_app, capture("a", "the sill", item_id="a"))
    assert ids(await ask(sqlite_app, "sill")) == ["a"]
    settings: Settings = sqlite_app.settings
    async with writing(settings) as writers:
        await writers.lifecycle.retire(DEFAULT_WORKSPACE, ItemId("a"))
    assert ids(await ask(sqlite_app, "sill")) == []
