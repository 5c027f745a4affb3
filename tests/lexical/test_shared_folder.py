"""Processes on one data folder whose index folder is deleted under them: each ends up in a folder of its own."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from service.adapters.lexical.folder import Slot
from service.model import DEFAULT_WORKSPACE
from tests.http.calls import document, ndjson
from tests.http.processes import served

PATIENCE_S = 60.0
NO_ROWS = "0"  # no process may read rows in place of its index


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
    """C14: nothing is written to or removed from a folder that was lost, not even one of the same name."""
    slot = Slot(tmp_path)
    folder = slot.workspace(DEFAULT_WORKSPACE)
    mine = folder.next_generation()
    folder.require(mine)
    shutil.rmtree(tmp_path)
    other = Slot(tmp_path)
    theirs = other.workspace(DEFAULT_WORKSPACE).next_generation()
    assert (other.path, theirs) == (slot.path, mine)
    with pytest.raises(OSError, match="another process"):
        folder.require(mine)
    folder.remove(mine)
    folder.drop_others(mine)
    assert theirs.exists()
    other.release()
    shutil.rmtree(tmp_path)
    again = folder.next_generation()
    assert again == mine
    folder.require(again)
    slot.release()
