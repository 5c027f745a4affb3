"""Processes on one data folder whose index folder is deleted under them: each ends up in a folder of its own."""

import asyncio
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from service.adapters.lexical import index as lexical_index
from service.adapters.lexical.engine import Engine, EngineError
from service.adapters.lexical.folder import Slot
from service.bootstrap import application
from service.errors import LexicalIndexUnavailable
from service.model import DEFAULT_WORKSPACE, ContentType
from service.ports.store import IndexablePassage, PassageKey
from service.settings import Settings
from tests.http.calls import document, ndjson
from tests.http.processes import served
from tests.lexical.parts import found as matching
from tests.lexical.parts import write

PATIENCE_S = 60.0
NO_ROWS = "0"  # no process may read rows in place of its index
PASSAGE = IndexablePassage(PassageKey(1), ContentType.TECH_DOC, " title ", "", " sill ", 1)


def stored(client: httpx.Client, name: str) -> None:
    """A document about the sill."""
    assert client.post("/v1/items", json=document(name, f"the sill of {name}")).status_code == 201


def found(client: httpx.Client) -> set[str]:
    """The documents that a server answers with. Raises AssertionError where it does not answer."""
    answer = client.post("/v1/retrieve", json={"query": "sill", "limit": 200})
    assert answer.status_code == 200, answer.text
    return {one["provenance"]["item_id"] for one in answer.json()["results"]}


def soon(said: Callable[[], bool]) -> None:
    """Wait until it is so; a refusal is not yet so."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            if said():
                return
        except AssertionError:
            pass
        assert time.monotonic() < until, "it does not get so"
        time.sleep(0.05)


def test_another_process_takes_the_deleted_folder(tmp_path: Path) -> None:
    """C14: whose index folder was deleted, and is another process's by now, takes a new one; both stay exact."""
    with served(tmp_path, scan_bound=NO_ROWS) as first:
        first.post("/v1/items/import", content=ndjson(document(f"d{n}", f"sill {n}") for n in range(30)))
        assert len(found(first)) == 30
        shutil.rmtree(tmp_path / "lexical")
        with served(tmp_path, scan_bound=NO_ROWS) as second:
            for number in range(3):
                stored(second, f"written{number}")
                soon(lambda: found(second) == found(first) and f"written{number}" in found(first))  # noqa: B023
            stored(first, "back")
            soon(lambda: "back" in found(second))
            assert found(first) == found(second)
        with served(tmp_path, scan_bound=NO_ROWS) as again:  # the folder that was left is taken as it is
            stored(again, "later")
            for _ in range(20):
                assert "later" in found(first)
                assert found(first) == found(again)
        assert len(list((tmp_path / "lexical").glob("slot-*"))) == 2


def test_a_lost_slot_is_nobodys(tmp_path: Path) -> None:
    """C14: nothing is written to or removed from a slot that was lost, and no generation's name comes again."""
    slot = Slot(tmp_path)
    folder = slot.workspace(DEFAULT_WORKSPACE)
    mine = folder.next_generation()
    folder.require(mine)
    shutil.rmtree(tmp_path)
    other = Slot(tmp_path)
    theirs = other.workspace(DEFAULT_WORKSPACE).next_generation()
    assert other.path == slot.path
    assert theirs.name != mine.name
    with pytest.raises(OSError, match="another process"):
        folder.require(mine)
    folder.remove(mine)
    folder.drop_others(mine)
    assert theirs.exists()
    other.release()
    shutil.rmtree(tmp_path)
    again = folder.next_generation()
    assert (again.parent, again.name != mine.name) == (mine.parent, True)
    folder.require(again)
    with pytest.raises(OSError, match="another process"):
        folder.require(mine)
    slot.release()


def test_a_writer_does_not_reach_into_another_folder(tmp_path: Path) -> None:
    """C14: a build whose slot another process has meanwhile fails at its next write and at its commit."""
    slot = Slot(tmp_path)
    folder = slot.workspace(DEFAULT_WORKSPACE)
    mine = folder.next_generation()
    engine = Engine(mine, partial(folder.require, mine))
    engine.add([PASSAGE])
    (slot.path / "lock").unlink()  # the files stay where they are
    other = Slot(tmp_path)
    assert other.path == slot.path
    with pytest.raises(EngineError, match="another process"):
        engine.commit()
    with pytest.raises(EngineError, match="another process"):
        engine.add([PASSAGE])
    engine.release()
    assert Engine(mine).searcher().documents == 0
    slot.release()
    other.release()


def test_no_two_have_a_slot_while_the_folder_is_deleted(tmp_path: Path) -> None:
    """C14: of any number that take and keep slots while the folder is deleted, no two end up in the same one."""
    root, over = tmp_path / "lexical", threading.Event()

    def live(slot: Slot) -> None:
        while not over.is_set():
            with suppress(OSError):
                slot.keep()

    slots = [Slot(root) for _ in range(4)]
    living = [threading.Thread(target=live, args=(slot,)) for slot in slots]
    for thread in living:
        thread.start()
    for _ in range(200):
        shutil.rmtree(root, ignore_errors=True)  # somebody may be making it again
    over.set()
    for thread in living:
        thread.join()
    for slot in slots:
        slot.keep()
    assert len({slot.path for slot in slots}) == len(slots)
    assert all(slot.is_own for slot in slots)
    for slot in slots:
        slot.release()


@pytest.mark.anyio
async def test_a_slot_that_was_lost_is_logged(
    sqlite_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U19: the log says which slot was lost and which was taken, and why the index is built again."""
    monkeypatch.setattr(lexical_index, "MAINTAIN_EVERY_S", 0.02)
    async with application(sqlite_settings) as app:
        await write(app, "a", 3, "sill")
        with capture_logs() as logs:
            shutil.rmtree(sqlite_settings.data_dir / "lexical")
            other = Slot(sqlite_settings.data_dir / "lexical")
            async with asyncio.timeout(PATIENCE_S):
                while "lexical_index_built" not in [line["event"] for line in logs]:
                    assert len(await matching(app, "sill")) == 3
                    await asyncio.sleep(0.02)
        other.release()
    build = next(line for line in logs if line["event"] == "lexical_index_build")
    assert build["reason"] == "the index folder was deleted or is another process's by now"
    lost = next(line for line in logs if line["event"] == "lexical_slot_lost")
    assert (lost["lost"], lost["taken"]) == ("slot-0", "slot-1")


@pytest.mark.anyio
async def test_what_a_refused_caller_is_told(sqlite_settings: Settings) -> None:
    """C14: above the bound a refusal says what is the matter: not that it is being built where it cannot be."""
    async with application(sqlite_settings.model_copy(update={"scan_bound": 0})) as app:
        await write(app, "a", 3, "sill")
        shutil.rmtree(sqlite_settings.data_dir / "lexical")
        (sqlite_settings.data_dir / "lexical").write_text("in the way")
        await app.lexical.rebuild(DEFAULT_WORKSPACE)
        assert len(await matching(app, "sill")) == 3, "what is open answers as long as nothing is written"
        await write(app, "b", 1, "sill")
        with pytest.raises(LexicalIndexUnavailable, match="cannot be used; it is built anew as soon"):
            await matching(app, "sill")
