"""Servers whose index folder is deleted under them, killed and started again: each in a slot of its own.

The corpus is larger than what may be read row by row, so a server without an index of its own refuses to answer.
"""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.processes import Fleet, Server, fleet
from tests.http.calls import document, ndjson

PATIENCE_S = 60.0
BOUND = 1_000
PASSAGES = 1_200
ROUNDS = 4


def write(server: Server, name: str) -> None:
    """Store a document that is found by its name alone."""
    assert server.client.post("/v1/items", json=document(name, f"the jamb {name}")).status_code == 201


def finds(server: Server, name: str) -> bool | None:
    """Whether a server's answer to a name is its document; None where it refuses to answer."""
    answer = server.client.post("/v1/retrieve", json={"query": name})
    if answer.status_code == 503:
        assert answer.json()["code"] == "lexical_index_unavailable"
        return None
    return [one["provenance"]["item_id"] for one in answer.json()["results"]] == [name]


def soon_finds(server: Server, name: str) -> None:
    """Wait for a server to answer, rightly from the first time on."""
    until = time.monotonic() + PATIENCE_S
    while (found := finds(server, name)) is None:
        assert time.monotonic() < until, "it does not answer again"
        time.sleep(0.1)
    assert found


def assert_apart(*servers: Server) -> None:
    """Each server holds one lock, on a file that is there, and no two the same."""
    until = time.monotonic() + PATIENCE_S
    while True:
        held = [server.slots for server in servers]
        if all(len(one) == 1 and "deleted" not in one[0] for one in held):
            break
        assert time.monotonic() < until, held
        time.sleep(0.1)
    assert len({slot for (slot,) in held}) == len(servers), held


@contextmanager
def filled(home: Path) -> Iterator[Fleet]:
    """Servers over more passages than may be read row by row."""
    with fleet(home, scan_bound=str(BOUND)) as servers:
        (first,) = servers.start()
        lines = [document(f"d{n}", *(f"sill {n} {k}" for k in range(30))) for n in range(PASSAGES // 30)]
        assert first.client.post("/v1/items/import", content=ndjson(lines)).status_code == 200
        first.kill()
        yield servers


def test_it_answers_on_beside_the_process_that_has_its_slot(home: Path) -> None:
    """C14: whose slot is another's by now answers from a new one after a rebuild, and is not disturbed again."""
    with filled(home) as servers:
        (a,) = servers.start()
        write(a, "before")
        shutil.rmtree(home / "lexical")
        (b,) = servers.start()
        for number in range(5):
            write(b, f"byb{number}")
            soon_finds(a, f"byb{number}")
            assert finds(b, f"byb{number}")
        assert_apart(a, b)
        for number in range(5, 15):  # settled: not one refusal
            write((a, b)[number % 2], f"both{number}")
            assert [finds(server, f"both{number}") for server in (a, b)] == [True, True]
        b.kill()
        (again,) = servers.start()
        for number in range(15, 25):
            write((a, again)[number % 2], f"both{number}")
            assert finds(a, f"both{number}"), "another's death and return is nothing to it"
            soon_finds(again, f"both{number}")
        assert finds(a, "before")
        assert finds(again, "before")
        assert_apart(a, again)


def test_killed_and_started_at_once(home: Path) -> None:
    """C14: servers that are killed and started together, with or without their folder, never share a slot."""
    with filled(home) as servers:
        running = servers.start(2)
        for number in range(ROUNDS):
            write(running[0], f"kept{number}")
            if number % 2:
                shutil.rmtree(home / "lexical")
            for server in running:
                server.kill()
            running = servers.start(2)
            assert_apart(*running)
            for server in running:
                for known in range(number + 1):
                    soon_finds(server, f"kept{known}")


@pytest.mark.parametrize("what", ["folder", "locks"])
def test_deleted_while_everybody_reads_and_writes(home: Path, what: str) -> None:
    """C14: servers that lose their folder, or its locks alone, all together end up apart and exact."""
    with filled(home) as servers:
        running = servers.start(2)
        for number in range(ROUNDS):
            deleting = threading.Thread(target=_delete, args=(home / "lexical", what))
            deleting.start()
            for step in range(5):
                write(running[step % 2], f"w{number}x{step}")
            deleting.join()
            assert_apart(*running)
            for server in running:
                for step in range(5):
                    soon_finds(server, f"w{number}x{step}")
        running[0].kill()
        running[0] = servers.start()[0]
        assert_apart(*running)
        for server in running:
            for number in range(ROUNDS):
                soon_finds(server, f"w{number}x4")


def _delete(folder: Path, what: str) -> None:
    if what == "folder":
        shutil.rmtree(folder, ignore_errors=True)  # somebody may be making it again
        return
    for lock in folder.glob("slot-*/lock"):
        lock.unlink(missing_ok=True)
