"""`citewell vectors status`, over an index in the data directory."""

import asyncio
import time
from pathlib import Path

import pytest

from service.bootstrap import application
from service.ingest.vectors import StepOutcome, VectorWorker
from service.model import DEFAULT_WORKSPACE, ItemId
from service.ports.vectors import PointKey, point_id
from service.settings import Settings
from service.vector_parts import open_index, open_ledger
from tests.builders import capture, store
from tests.cli.commands import CommandLine
from tests.cli.conftest import logs_as_before
from tests.rollout.parts import WordEncoder

__all__ = ["logs_as_before"]  # commands change where logs go


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    """The command line over an empty database."""
    return CommandLine(tmp_path / "data")


async def fill(data_dir: Path, lost: int, pending: int) -> None:
    """Three embedded passages of which the index has lost some, and newer ones that it has not seen."""
    settings = Settings(data_dir=data_dir)
    async with application(settings) as app:
        index = open_index(settings)
        try:
            worker = VectorWorker(open_ledger(settings, app.store.engines), index, WordEncoder(), "words")
            await store(app, capture("a", "one", "two", "three", item_id="a"))
            while await worker.step() is StepOutcome.WORKED:
                pass
            ids = [point_id(DEFAULT_WORKSPACE, PointKey(ItemId("a"), seq)) for seq in range(lost)]
            collection = await worker.collection()
            assert collection is not None
            await index.delete(collection.name, ids, time.monotonic() + 30)
            for number in range(pending):
                await store(app, capture(f"new {number}", "later"))
            await worker.release()
        finally:
            await index.close()


def test_status_shows_what_is_missing_beyond_pending_changes(cli: CommandLine) -> None:
    """U19: rows and points are compared for the status; what the worker has yet to do is only pending."""
    asyncio.run(fill(cli.data_dir, lost=2, pending=1))
    shown = cli.json("vectors", "status")
    assert (shown["points"], shown["pending"], shown["parked"]) == (1, 1, 0)
    assert (shown["missing"], shown["orphan"], shown["reason"]) == (2, 0, None)
    assert isinstance(shown["compared_at"], str)
    page = cli.ok("vectors", "status")
    assert "2 passages missing, 0 orphan points" in page


def test_a_fresh_database_has_no_vectors_and_no_fault(cli: CommandLine) -> None:
    """U19: before the first vectors the status says so, and neither counts nor reasons are invented."""
    shown = cli.json("vectors", "status")
    assert shown == {
        "collections": [],
        "points": None,
        "pending": None,
        "lag_seconds": None,
        "parked": 0,
        "missing": None,
        "orphan": None,
        "compared_at": None,
        "compared_by": None,
        "workers": [],
        "fault": None,
        "reason": None,
    }
    assert "no vectors yet" in cli.ok("vectors", "status")
