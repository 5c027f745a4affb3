"""`citewell retrieve`."""

import shlex
from pathlib import Path

import pytest
from litestar.testing import TestClient

from service.settings import Settings
from service.surfaces.http.app import create_app
from tests.cli.commands import CommandLine, Json, item_ids
from tests.ingest.parts import capture_line, write_lines

QUERIES = [
    "NW-SL45/20-D",
    "which way does the height screw turn",
    "zzzznosuchword",
    'SL45 "quoted" -x: 日本',
    "-v",
]


def over_http(data_dir: Path, method: str, path: str, body: Json | None = None) -> Json:
    """What HTTP answers over the same data."""
    with TestClient(create_app(Settings(data_dir=data_dir))) as client:
        answer = client.request(method, path, json=body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("query", QUERIES)
def test_the_same_question_has_the_same_answer_over_http(shop: CommandLine, query: str) -> None:
    """U13: a text gives the same rows, order, scores and next step on the command line as over HTTP."""
    body: Json = {"query": query, "limit": 3, "explain": True, "view": "summary"}
    shown = shop.json("retrieve", "--limit", "3", "--explain", "--view", "summary", "--", query)
    assert shown == over_http(shop.data_dir, "POST", "/v1/retrieve", body)


def test_systems_and_selections_have_the_same_answer_over_http(shop: CommandLine) -> None:
    """U13: a system and a selection, too, are answered alike on both surfaces."""
    by_system = shop.json("retrieve", "--system", "fd30", "--content-type", "blog")
    assert by_system == over_http(shop.data_dir, "GET", "/v1/systems/fd30/passages?content_type=blog")
    by_selection = shop.json("retrieve", "--options", "loc-balcony,cli-coast")
    asked: Json = {"option_ids": ["loc-balcony", "cli-coast"]}
    assert by_selection == over_http(shop.data_dir, "POST", "/v1/selection/passages", asked)


def test_the_next_step_is_usable_as_it_stands(shop: CommandLine) -> None:
    """U5, U7: running the printed next command page by page gives the one-shot list, no gap, no repeat."""
    whole = shop.json("retrieve", "sill drains outward", "--limit", "12")
    walked: list[str] = []
    shown = shop.json("retrieve", "--limit", "4", "sill", "drains", "outward")
    for _ in range(3):
        walked += item_ids(shown)
        step = shown["next_action"]
        assert isinstance(step, dict)
        assert step["do"] == "next_page"
        program, *arguments = shlex.split(str(step["cli"]))
        assert program == "citewell"
        shown = shop.json(*arguments)
    assert walked == item_ids(whole)


def test_a_passage_is_shown_with_its_citation(shop: CommandLine) -> None:
    """C10: what a person sees names document, version, source, liveness and passage."""
    page = shop.ok("retrieve", "NW-SL45/20-D", "--limit", "1", "--explain")
    assert "SL45 folding glass wall > Sills" in page
    assert "2024-03, https://www.norrwall.example/products/sl45 (live) [sl45-overview-2024#4" in page
    assert "nw-sl45/20-d" in page
    assert "next: citewell retrieve" in page


def test_a_miss_is_no_error(shop: CommandLine) -> None:
    """C9: nothing found is said, with exit status 0 and an empty list."""
    assert "no passage found" in shop.ok("retrieve", "zzzznosuchword")
    assert shop.json("retrieve", "--system", "no-such-system")["results"] == []
    assert shop.json("retrieve", "--options", ",")["results"] == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("x", "--limit", "0"), "invalid_limit"),
        (("x", "--limit", "201"), "invalid_limit"),
        (("x", "--limit", "two"), "usage"),
        (("x", "--content-type", "poem"), "unknown_content_type"),
        (("x", "--cursor", "forged"), "invalid_cursor"),
        (("x", "--view", "huge"), "usage"),
        ((), "usage"),
        (("x", "--system", "sl45"), "usage"),
        (("x", "--workspace", " "), "usage"),
    ],
)
def test_a_malformed_request_is_an_error(shop: CommandLine, arguments: tuple[str, ...], code: str) -> None:
    """C9: malformed input is a clear error with its stable code, never an empty list."""
    shop.fails(2, code, "retrieve", *arguments)


def test_text_cannot_command_the_terminal(cli: CommandLine, tmp_path: Path) -> None:
    """Control and direction characters of a passage are written out, in text and in JSON alike."""
    evil = "sill \x1b]0;owned\x07\x1b[2J \x9b31m \u202egnp.exe"
    write_lines(tmp_path / "a.jsonl", [capture_line(1, evil, title="T\x1b[1m")])
    cli.ok("ingest", str(tmp_path / "a.jsonl"))
    for output in (cli.ok("retrieve", "sill"), cli.ok("retrieve", "sill", "--json")):
        assert not any(sign in output for sign in "\x1b\x07\x9b\u202e")
    shown = cli.json("retrieve", "sill")["results"]
    assert isinstance(shown, list)
    assert shown[0]["text"] == evil, "a program gets the exact text"


def test_workspaces_are_apart(cli: CommandLine, tmp_path: Path) -> None:
    """What is stored in one workspace is not found in another, and the next step names its workspace."""
    write_lines(tmp_path / "a.jsonl", [capture_line(n, "sill") for n in range(3)])
    cli.ok("ingest", str(tmp_path), "--workspace", "other")
    assert cli.json("retrieve", "sill")["results"] == []
    shown = cli.json("retrieve", "sill", "--workspace", "other", "--limit", "1")
    assert item_ids(shown) == ["n0"]
    step = shown["next_action"]
    assert isinstance(step, dict)
    assert "--workspace other" in str(step["cli"])
