"""What an operator is told of indexes: why one was lost and built again, and what nobody foresaw."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from service.adapters.lexical import index as lexical_index
from service.bootstrap import application
from service.model import DEFAULT_WORKSPACE, Workspace
from service.settings import Settings
from tests.lexical.parts import found, write

pytestmark = pytest.mark.anyio
OTHER = Workspace("other")


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.02)


def told(logs: list[EventDict], event: str) -> list[object]:
    """The reasons of a kind of line."""
    return [line.get("reason") for line in logs if line["event"] == event]


def damage(folder: Path) -> None:
    """Flip the bits of the first bytes of a file of each index."""
    for path in folder.glob("lexical/slot-*/*/g*/*.term"):
        content = path.read_bytes()
        path.write_bytes(bytes(byte ^ 0xFF for byte in content[:8]) + content[8:])


async def test_damage_at_a_start_is_logged(sqlite_settings: Settings) -> None:
    """U19: an index that cannot be trusted at the start is logged with its reason, and so is the build."""
    async with application(sqlite_settings) as app:
        await write(app, "a", 3, "sill")
    damage(sqlite_settings.data_dir)
    with capture_logs() as logs:
        async with application(sqlite_settings) as app:
            assert len(await found(app, "sill")) == 3
    assert told(logs, "lexical_index_not_trusted") == ["an index file was altered"]
    assert told(logs, "lexical_index_build") == ["an index file was altered"]
    assert [line["workspace"] for line in logs if line["event"] == "lexical_index_built"] == [
        DEFAULT_WORKSPACE
    ]


async def test_damage_while_running_is_logged_and_repaired(
    sqlite_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U19: an index that is lost while running is logged, and built again although nobody asks for it."""
    monkeypatch.setattr(lexical_index, "MAINTAIN_EVERY_S", 0.02)
    async with application(sqlite_settings) as app:
        await write(app, "a", 3, "sill")
        shard = app.lexical._shards[DEFAULT_WORKSPACE]
        with capture_logs() as logs:
            damage(sqlite_settings.data_dir)
            shard._checked_at = float("-inf")  # ten minutes later
            await eventually(lambda: bool(told(logs, "lexical_index_built")))
        assert told(logs, "lexical_index_lost") == ["an index file was altered"]
        assert told(logs, "lexical_index_build") == ["an index file was altered"]
        assert shard.is_open
        assert shard.failure is None


async def test_a_rebuild_that_was_asked_for_is_logged(sqlite_settings: Settings) -> None:
    """U19: the log says that somebody asked for a build."""
    async with application(sqlite_settings) as app:
        await write(app, "a", 3, "sill")
        with capture_logs() as logs:
            await app.lexical.rebuild(DEFAULT_WORKSPACE)
        assert told(logs, "lexical_index_build") == ["asked for"]


async def test_a_build_that_fails_is_logged(sqlite_settings: Settings) -> None:
    """U19: an index that cannot be built is logged with its reason, and shown as unusable until it is."""
    async with application(sqlite_settings) as app:
        await write(app, "a", 3, "sill")
        shard = app.lexical._shards[DEFAULT_WORKSPACE]
        assert shard._current is not None
        (sqlite_settings.data_dir / "lexical").rename(sqlite_settings.data_dir / "away")
        (sqlite_settings.data_dir / "lexical").write_text("in the way")
        with capture_logs() as logs:
            await shard.damaged(shard._current, "a test")
            await app.lexical.catch_up(DEFAULT_WORKSPACE)
        assert told(logs, "lexical_index_lost") == ["a test"]
        assert len(told(logs, "lexical_index_not_built")) == 1
        assert [status.workspace for status in app.lexical.unusable()] == [DEFAULT_WORKSPACE]
        (sqlite_settings.data_dir / "lexical").unlink()
        shard._retry_at = float("-inf")  # some seconds later
        await app.lexical.catch_up(DEFAULT_WORKSPACE)
        assert app.lexical.unusable() == []


async def test_what_nobody_foresaw_does_not_end_the_upkeep(
    sqlite_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U19: an unforeseen error in one index's upkeep is logged with its trace, and the upkeep of all goes on."""
    monkeypatch.setattr(lexical_index, "MAINTAIN_EVERY_S", 0.02)
    async with application(sqlite_settings) as app:
        await write(app, "a", 1, "sill")
        await write(app, "a", 1, "sill", OTHER)
        ill, well = app.lexical._shards[DEFAULT_WORKSPACE], app.lexical._shards[OTHER]
        with capture_logs() as logs:
            ill._saved_at = "never"  # type: ignore[assignment]  # a defect
            await eventually(lambda: len(told(logs, "lexical_index_step_failed")) > 1)
            assert well._current is not None
            well._current.wrote_at = float("-inf")  # a while later
            await eventually(lambda: well.writes_since is None)
        failed = next(line for line in logs if line["event"] == "lexical_index_step_failed")
        assert failed["workspace"] == DEFAULT_WORKSPACE
        assert isinstance(failed["exc_info"], TypeError)
        ill._saved_at = 0.0
