"""What kill -9 in the middle of an import leaves, and what the next run makes of it."""

import random
from pathlib import Path

import pytest

from service.bootstrap import Application, application
from service.model import DEFAULT_WORKSPACE, TagStatus, Workspace
from service.settings import Settings
from service.surfaces.shipped import load_shipped
from tests.builders import ask, ids
from tests.ingest.killed import ingest_folder, load, run_until_killed
from tests.ingest.parts import capture_line, ingest, request, write_lines

pytestmark = pytest.mark.anyio

KILLS = 20
LINES = 6_000
DOCUMENTS = 240


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Documents before and after a file of captures; every one has the word sill and a word of its own."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for number in range(DOCUMENTS):
        place = "a" if number < DOCUMENTS // 2 else "z"
        (inbox / f"{place}{number:03}.md").write_text(f"# Document {number}\n\nsill of doc{number}")
    write_lines(inbox / "m.jsonl", [capture_line(n, f"sill of line{n}") for n in range(LINES)])
    return inbox


async def live_passages(app: Application) -> int:
    """How many passages the database can show."""
    async with app.store.snapshot() as snapshot:
        return await snapshot.count_scorable(DEFAULT_WORKSPACE, 10 * LINES)


async def test_twenty_kills_lose_nothing_and_double_nothing(sqlite_settings: Settings, folder: Path) -> None:
    """C16: after kill -9 at any point the next run goes on; at the end rows and index hold each document once."""
    chance = random.Random(20)  # noqa: S311 - seeded moments, not a secret
    delays = [chance.uniform(0.0, 0.3) for _ in range(KILLS)]
    kills = [run_until_killed(ingest_folder, sqlite_settings, folder, delay) for delay in delays]
    assert sum(kills) > KILLS // 2, "most runs were killed while they worked"
    async with application(sqlite_settings) as app:
        held = await live_passages(app)
        report = await ingest(app, request(folder))
        assert (report.failed, report.superseded) == (0, 0)
        assert report.stored == LINES + DOCUMENTS - held, "what was stored before is not stored again"
        assert await live_passages(app) == LINES + DOCUMENTS
        (status,) = app.lexical.status().values()
        assert status.documents == LINES + DOCUMENTS, "the index holds what the rows hold"
        for word, item_id in (("line0", "n0"), (f"line{LINES - 1}", f"n{LINES - 1}")):
            assert ids(await ask(app, word)) == [item_id]
        for number in (0, DOCUMENTS - 1):
            assert len((await ask(app, f"doc{number}")).results) == 1
        again = await ingest(app, request(folder))
        assert (again.unchanged_files, again.stored) == (DOCUMENTS + 1, 0)


async def test_a_killed_load_of_the_shipped_corpora_goes_on(sqlite_settings: Settings, folder: Path) -> None:
    """C4: whatever moment a load is killed at, the next one ends with every document and every tag's state."""
    for delay in (0.05, 0.4, 0.8, 1.2):
        run_until_killed(load, sqlite_settings, folder, delay)
    async with application(sqlite_settings) as app:
        await load_shipped(app, DEFAULT_WORKSPACE)
        assert await tag_counts(app, DEFAULT_WORKSPACE) == {"accepted": 27, "proposed": 7, "rejected": 6}


async def tag_counts(app: Application, workspace: Workspace) -> dict[str, int]:
    """How many tags there are of each status."""
    async with app.store.snapshot() as snapshot:
        return {
            status.value: len(await snapshot.tags(workspace, None, status, None, 1_000))
            for status in TagStatus
        }
