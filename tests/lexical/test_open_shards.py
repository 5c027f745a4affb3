"""How many indexes, writers and threads a process keeps, however many workspaces there are."""

import asyncio
from pathlib import Path

import pytest

from service.adapters.lexical import index as lexical_index
from service.adapters.lexical.open_shards import MOST_WRITERS, in_use
from service.bootstrap import Application, application
from service.core.scoring import weigh_terms
from service.core.tokenize import query_terms
from service.model import DEFAULT_WORKSPACE, Workspace
from service.settings import Settings
from tests.faults.corpus import upkeep
from tests.lexical.parts import found, whole, write

pytestmark = pytest.mark.anyio
BOUND = 3
MANY = [Workspace(f"w{number}") for number in range(3 * BOUND)]


@pytest.fixture
def few_open(settings: Settings) -> Settings:
    """Settings with room for a few open indexes, on each kind of database."""
    return settings.model_copy(update={"open_workspaces": BOUND, "index_patience": 20.0})


async def settled(app: Application) -> None:
    """Wait until the index has closed what is too much."""
    async with asyncio.timeout(30):
        while app.lexical._open.are_too_many:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)


def writers(app: Application) -> int:
    """Indexes with an open writer."""
    return app.lexical._open.writers


def threads() -> int:
    """The process's threads, those of libraries among them."""
    return len(list(Path("/proc/self/task").iterdir()))


def held_files() -> list[Path]:
    """What the process has open or mapped."""
    links = (*Path("/proc/self/fd").iterdir(), *Path("/proc/self/map_files").iterdir())
    return [link.readlink() for link in links if link.is_symlink()]


async def fill(app: Application) -> dict[Workspace, list[str]]:
    """Two items in each of many workspaces."""
    return {w: await write(app, f"{w}-", 2, "sill", w) for w in MANY}


async def test_many_workspaces_few_indexes(few_open: Settings) -> None:
    """C2: with more workspaces than may be open each answers exactly from its index, and the bound is kept."""
    async with application(few_open) as app:
        stored = await fill(app)
        await settled(app)
        assert len(app.lexical.status()) == BOUND
        for _ in range(2):
            for workspace, names in stored.items():
                answer = await whole(app, "sill", workspace)
                assert sorted(r.provenance.item_id for r in answer.results) == names
                assert answer.lexical.source == "index"
        await settled(app)
        assert list(app.lexical.status()) == sorted(MANY[-BOUND:])
        assert sum(status.rebuilds for status in app.lexical.status().values()) == 0


async def test_many_at_once(few_open: Settings) -> None:
    """C2: workspaces that are written and read at the same time, more than may be open, lose nothing."""
    async with application(few_open) as app:

        async def use(workspace: Workspace) -> None:
            names: list[str] = []
            for number in range(4):
                names += await write(app, f"{number}-", 1, "sill", workspace)
                assert await found(app, "sill", workspace) == names
                await asyncio.sleep(0)

        await asyncio.gather(*(use(workspace) for workspace in MANY))
        await settled(app)
        assert len(app.lexical.status()) == BOUND
    async with application(few_open) as app:
        for workspace in MANY:
            assert len(await found(app, "sill", workspace)) == 4


async def test_an_index_in_use_stays_open(few_open: Settings) -> None:
    """The index that was used least lately is closed, but for one that is in use: that one waits."""
    async with application(few_open) as app:
        await write(app, "a", 1, "sill", MANY[0])
        shard = app.lexical._shards[MANY[0]]
        with in_use(shard):
            for workspace in MANY[1:]:
                await write(app, "a", 1, "sill", workspace)
            await app.lexical._open.settle()
            assert shard.is_open
            assert MANY[0] in app.lexical.status()
        await app.lexical._open.settle()
        assert not shard.is_open
        assert MANY[0] not in app.lexical.status()


async def test_a_view_outlives_its_index(few_open: Settings) -> None:
    """C16: a reader whose index is closed and written to meanwhile still reads what it had."""
    async with application(few_open) as app:
        await write(app, "a", 20, "sill", MANY[0])
        terms = query_terms("sill")
        view = app.lexical.latest(MANY[0], [term.text for term in terms])
        assert view is not None
        before = await view.candidates(weigh_terms(terms, view.statistics), None, 64)
        for workspace in MANY[1:]:
            await write(app, "a", 1, "sill", workspace)
        await settled(app)
        assert MANY[0] not in app.lexical.status()
        await write(app, "b", 20, "sill", MANY[0])
        await app.lexical.rebuild(MANY[0])
        after = await view.candidates(weigh_terms(terms, view.statistics), None, 64)
        assert sorted(after.keys) == sorted(before.keys)
        assert len(await found(app, "sill", MANY[0])) == 40


async def test_what_is_opened_at_the_start(few_open: Settings) -> None:
    """C2: at the start the configured workspace's index is opened, and those changed last, up to the bound."""
    async with application(few_open) as app:
        await write(app, "a", 1, "sill")
        await fill(app)
    async with application(few_open) as app:
        assert set(app.lexical.status()) == {DEFAULT_WORKSPACE, *MANY[-(BOUND - 1) :]}
        assert all(status.applied is not None for status in app.lexical.status().values())
    async with application(few_open.model_copy(update={"workspace": "never written to"})) as app:
        assert set(app.lexical.status()) == set(MANY[-BOUND:])


async def test_writers_are_few_and_go(sqlite_settings: Settings) -> None:
    """Few writers are open however many workspaces are written to, and none once nothing is written."""
    async with application(sqlite_settings) as app:
        await write(app, "a", 1, "sill")
        before = threads()
        for _ in range(2):
            await fill(app)
            await settled(app)
            assert writers(app) <= MOST_WRITERS
        assert len(app.lexical.status()) == len(MANY) + 1
        for shard in app.lexical._shards.values():
            assert shard._current is not None
            shard._current.wrote_at = float("-inf")  # a while later
        await upkeep(app)
        assert writers(app) == 0
        async with asyncio.timeout(30):
            while threads() > before + len(MANY):  # one of each index, none of a writer  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert await write(app, "again", 1, "jamb", MANY[0]) == await found(app, "jamb", MANY[0])


async def test_files_are_let_go(sqlite_settings: Settings) -> None:
    """An index that was closed holds no file."""
    async with application(sqlite_settings.model_copy(update={"open_workspaces": 1})) as app:
        await fill(app)
        await settled(app)
        (kept,) = app.lexical.status()
        folder = app.lexical._slot.workspace(kept).path
        assert all(
            folder in path.parents for path in held_files() if app.lexical._slot.path in path.parents[1:]
        )


async def test_upkeep_closes_what_was_in_use(few_open: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be closed when it was too much is closed by the upkeep."""
    monkeypatch.setattr(lexical_index, "MAINTAIN_EVERY_S", 0.05)
    async with application(few_open) as app:
        for workspace in MANY[:BOUND]:
            await write(app, "a", 1, "sill", workspace)
        held = [app.lexical._shards[workspace] for workspace in MANY[:BOUND]]
        for shard in held:
            shard.users += 1
        await write(app, "a", 1, "sill", MANY[BOUND])
        await app.lexical._open.settle()
        for shard in held:
            shard.users -= 1
        await settled(app)
        assert len(app.lexical.status()) == BOUND
