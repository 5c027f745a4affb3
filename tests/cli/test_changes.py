"""Commands that change what is stored: items, vocabulary, tags, links, index, schema."""

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from service.settings import Settings
from service.surfaces.cli.tagging import login_name
from tests.cli.commands import CommandLine, Json, item_ids
from tests.http.calls import VOCABULARY
from tests.http.conftest import connected
from tests.ingest.parts import capture_line, write_lines


@pytest.fixture
def notes(cli: CommandLine, tmp_path: Path) -> CommandLine:
    """A database with three notes and a vocabulary."""
    write_lines(tmp_path / "notes.jsonl", [capture_line(n, f"sill and frost, note{n}") for n in range(3)])
    (tmp_path / "vocabulary.json").write_text(json.dumps(VOCABULARY))
    cli.ok("ingest", str(tmp_path / "notes.jsonl"))
    cli.ok("vocabulary", "import", str(tmp_path / "vocabulary.json"))
    return cli


def over_http(data_dir: Path, path: str) -> Json:
    """What HTTP answers over the same data."""

    async def ask() -> Json:
        async with connected(Settings(data_dir=data_dir)) as client:
            found = (await client.get(path)).json()
            assert isinstance(found, dict)
            return found

    return asyncio.run(ask())


def test_an_item_is_read_whole(notes: CommandLine) -> None:
    """C17, U13: an item is readable with its passages, and the same over HTTP."""
    assert "sill and frost, note1" in notes.ok("item", "show", "n1")
    assert notes.json("item", "show", "n1") == over_http(notes.data_dir, "/v1/items/n1")
    notes.fails(3, "item_not_found", "item", "show", "nowhere")
    notes.fails(3, "item_not_found", "item", "trace", "nowhere")


def test_a_retired_item_is_readable_and_not_retrieved(notes: CommandLine) -> None:
    """C14, C17: once retired an item is out of every retrieval and can still be read."""
    assert "is retired" in notes.ok("item", "retire", "n1")
    assert item_ids(notes.json("retrieve", "note1")) == []
    assert notes.json("item", "show", "n1")["stale"] is True
    assert notes.json("item", "retire", "n1") == {"item_id": "n1", "changed": False}
    notes.fails(3, "item_not_found", "item", "retire", "nowhere")


def test_a_chain_is_followed_to_its_head(notes: CommandLine) -> None:
    """C17: a chain made on the command line resolves to its head, and closing a cycle is refused."""
    assert "superseded by n1" in notes.ok("item", "supersede", "n0", "--by", "n1")
    assert notes.json("item", "supersede", "n1", "--by", "n2")["changed"] is True
    traced = notes.json("item", "trace", "n0")
    assert traced["head"] == "n2"
    assert traced == over_http(notes.data_dir, "/v1/items/n0/supersession")
    assert [line.split()[0] for line in notes.ok("item", "trace", "n2").splitlines()[1:]] == [
        "n0",
        "n1",
        "n2",
    ]
    assert item_ids(notes.json("retrieve", "sill")) == ["n2"]
    notes.fails(4, "supersession_cycle", "item", "supersede", "n2", "--by", "n0")
    notes.fails(4, "already_superseded", "item", "supersede", "n0", "--by", "n2")
    notes.fails(3, "item_not_found", "item", "supersede", "n2", "--by", "nowhere")


def test_a_vocabulary_is_imported_whole(notes: CommandLine) -> None:
    """C3: systems, factors, options and attributes come in as they are stated and are shown again."""
    shown = notes.json("vocabulary", "show")
    assert shown == over_http(notes.data_dir, "/v1/vocabulary")
    assert json.loads(notes.ok("vocabulary", "import", "-", "--json", stdin=json.dumps(shown))) == {
        "systems": 2,
        "attributes": 1,
        "factors": 1,
        "options": 2,
    }
    assert notes.json("vocabulary", "show") == shown
    assert "freezing winters" in notes.ok("vocabulary", "show")


def test_a_bad_vocabulary_changes_nothing(notes: CommandLine, tmp_path: Path) -> None:
    """C3: a vocabulary that refers to nothing, or is none, is refused and the old one stands."""
    before = notes.json("vocabulary", "show")
    dangling = {"options": [{"option_id": "o", "factor_id": "nowhere", "label": "x"}]}
    for text, code in (
        (json.dumps(dangling), "invalid_vocabulary"),
        ('{"surprise": 1}', "invalid_input"),
        ("[", "invalid_input"),
    ):
        (tmp_path / "bad.json").write_text(text)
        notes.fails(2, code, "vocabulary", "import", str(tmp_path / "bad.json"))
    notes.fails(2, "usage", "vocabulary", "import", str(tmp_path / "nowhere.json"))
    assert notes.json("vocabulary", "show") == before


def test_a_tag_is_proposed_then_decided_by_a_person(notes: CommandLine) -> None:
    """C4: a tag goes from proposed to accepted or rejected, and each step keeps who and when."""
    proposed = notes.json("tags", "propose", "n1", "--factor", "climate", "--by", "Ingrid")
    assert proposed["status"] == "proposed"
    tag_id = str(proposed["tag_id"])
    assert notes.json("tags", "accept", tag_id, "--by", "Tomas")["status"] == "accepted"
    assert "is rejected" in notes.ok("tags", "reject", tag_id)
    listed = notes.json("tags", "list", "--item", "n1")["results"]
    assert isinstance(listed, list)
    steps = [(event["before"], event["after"], event["by"]) for event in listed[0]["events"]]
    assert steps == [
        (None, "proposed", "Ingrid"),
        ("proposed", "accepted", "Tomas"),
        ("accepted", "rejected", login_name()),
    ]
    assert "factor climate" in notes.ok("tags", "list")
    notes.fails(3, "tag_not_found", "tags", "accept", "nowhere")
    notes.fails(3, "item_not_found", "tags", "propose", "nowhere", "--factor", "climate")
    notes.fails(3, "facet_not_found", "tags", "propose", "n1", "--attribute", "nowhere")
    notes.fails(2, "usage", "tags", "propose", "n1")
    notes.fails(2, "usage", "tags", "propose", "n1", "--factor", "climate", "--attribute", "thermal")


def test_tags_are_listed_page_by_page_as_over_http(notes: CommandLine) -> None:
    """U13: a list of tags has the same pages and next steps on the command line as over HTTP."""
    for item in ("n0", "n1", "n2"):
        notes.ok("tags", "propose", item, "--attribute", "thermal")
    first = notes.json("tags", "list", "--limit", "2", "--status", "proposed")
    assert first == over_http(notes.data_dir, "/v1/facet-tags?limit=2&status=proposed")
    second = notes.json(
        "tags", "list", "--limit", "2", "--status", "proposed", "--cursor", str(first["next_cursor"])
    )
    assert (first["shown"], second["shown"], second["has_more"]) == (2, 1, False)
    assert "next: citewell tags list" in notes.ok("tags", "list", "--limit", "1")
    notes.fails(2, "invalid_cursor", "tags", "list", "--cursor", "forged")
    notes.fails(2, "invalid_limit", "tags", "list", "--limit", "0")


def test_only_an_accepted_tag_boosts_and_only_once(notes: CommandLine) -> None:
    """C22: for a selection, each accepted tag among its facets lifts its item once; no other tag does."""

    def scores() -> dict[str, float]:
        results = notes.json("retrieve", "--options", "cold")["results"]
        assert isinstance(results, list)
        return {result["provenance"]["item_id"]: result["score"] for result in results}

    tags = {
        facet: str(notes.json("tags", "propose", "n1", f"--{facet}", name)["tag_id"])
        for facet, name in (("factor", "climate"), ("attribute", "thermal"))
    }
    before = scores()
    notes.ok("tags", "accept", tags["factor"])
    once = scores()
    notes.ok("tags", "accept", tags["factor"])
    notes.ok("tags", "accept", tags["attribute"])
    twice = scores()
    notes.ok("tags", "reject", tags["factor"])
    assert once["n1"] > before.get("n1", 0.0)
    assert twice["n1"] - once["n1"] == pytest.approx(once["n1"] - before.get("n1", 0.0))
    assert scores()["n1"] == pytest.approx(once["n1"])
    for item in ("n0", "n2"):
        assert twice.get(item) == before.get(item), "nobody else moves"


class _Page(BaseHTTPRequestHandler):
    """Answers 200 for /alive, 404 for the rest."""

    def do_HEAD(self) -> None:
        self.send_response(200 if self.path == "/alive" else 404)
        self.end_headers()

    do_GET = do_HEAD  # noqa: N815 - the base class's name

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def site() -> Iterator[str]:
    """A site on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_links_are_checked_and_remembered(cli: CommandLine, tmp_path: Path, site: str) -> None:
    """C28: a check stores which source URLs answered, and says what it could not confirm."""
    page = {"source_type": "url", "source_filename": None}
    lines = [
        capture_line(n, "sill", source_url=f"{site}/{path}", **page)
        for n, path in ((0, "alive"), (1, "gone"))
    ]
    write_lines(tmp_path / "a.jsonl", lines)
    cli.ok("ingest", str(tmp_path / "a.jsonl"))
    refused = cli.run("links", "check", "--json")
    assert (refused.exit_code, json.loads(refused.stdout)["refused"]) == (5, 2), "loopback is private"
    found = cli.json("links", "check", "--allow-private", "--second-look-after", "0")
    assert (found["checked"], found["alive"], found["dead"]) == (2, 1, 1)
    assert cli.json("item", "show", "n0")["source_url_ok"] is True
    assert cli.json("item", "show", "n1")["source_url_ok"] is False
    assert "1 alive, 1 dead" in cli.ok("links", "check", "--allow-private", "--second-look-after", "0")


def test_the_index_is_rebuilt_from_the_rows(notes: CommandLine) -> None:
    """The index can be thrown away and built anew, and answers as before."""
    before = notes.json("retrieve", "sill")["results"]
    rebuilt = notes.json("index", "rebuild")
    assert rebuilt == notes.json("index", "status")
    assert rebuilt["workspaces"] == [
        {"workspace": "default", "state": "ready", "reason": None, "applied": rebuilt["head"], "passages": 3}
    ]
    assert "ready" in notes.ok("index", "status")
    assert notes.json("retrieve", "sill")["results"] == before


def test_the_schema_is_upgraded(cli: CommandLine) -> None:
    """The schema can be brought to this version before anything is started, and again after that."""
    for _ in range(2):
        cli.ok("db", "upgrade")
    assert (cli.data_dir / "citewell.db").exists()
