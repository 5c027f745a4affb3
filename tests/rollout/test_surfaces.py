"""The flag on the command line, and shadow mode's report on the command line and over HTTP."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from service.adapters.sql.rollout import SqlShadowLedger
from service.bootstrap import open_store
from service.model import DEFAULT_WORKSPACE
from service.ports.shadow import RankMove, Retention, ShadowComparison
from service.settings import Settings
from service.surfaces.http.app import create_app
from tests.cli.commands import CommandLine
from tests.cli.conftest import logs_as_before

__all__ = ["logs_as_before"]  # commands change where logs go
STATE_OF_OTHERS = "workspaces with a state of their own keep it"


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    """The command line over an empty database."""
    return CommandLine(tmp_path / "data")


@pytest.fixture
def go(tmp_path: Path) -> str:
    """The name of a report that says GO."""
    path = tmp_path / "go.json"
    path.write_text(
        '{"schema": "citewell-eval-1", "decision": "GO", "dataset_hash": "d1", '
        '"created_at": "2025-05-31T08:30:00Z"}'
    )
    return str(path)


def test_the_flag_is_set_by_a_person(cli: CommandLine, go: str) -> None:
    """E3: the command line sets the flag, and shows who did, when, why and on which report."""
    assert cli.json("flag", "show")["state"] == "off"
    cli.ok("flag", "set", "shadow", "--reason", "first look", "--by", "ada")
    cli.ok(
        "flag", "set", "25%", "--reason", "evaluated", "--by", "ada", "--report", go, "--workspace", "acme"
    )
    shown = cli.json("flag", "show", "--workspace", "acme")
    changes = shown.pop("changes")
    assert shown == {
        "workspace": "acme",
        "state": "25%",
        "holder": "store",
        "problem": None,
        "environment": "off",
        "rows": [{"workspace": None, "state": "shadow"}, {"workspace": "acme", "state": "25%"}],
        "states": [{"workspace": "acme", "state": "25%"}],
    }
    assert isinstance(changes, list)
    newest, first = changes
    assert datetime.now(UTC) - datetime.fromisoformat(newest.pop("at")) < timedelta(minutes=5)
    assert newest == {
        "workspace": "acme",
        "who": "ada",
        "before": None,
        "after": "25%",
        "reason": "evaluated",
        "report": {
            "path": go,
            "decision": "GO",
            "dataset_hash": "d1",
            "created_at": "2025-05-31T08:30:00Z",
        },
        "forced": False,
    }
    assert (first["workspace"], first["after"], first["report"]) == (None, "shadow", None)
    page = cli.ok("flag", "show")
    assert "shadow, held by store" in page
    assert "first look" in page


def test_on_needs_an_evaluation_or_force(cli: CommandLine) -> None:
    """E3: without a report that says GO, `flag set on` is refused; force is carried out and kept as such."""
    cli.fails(4, "flag_needs_evaluation", "flag", "set", "on", "--reason", "why not")
    assert cli.json("flag", "show")["state"] == "off"
    assert "(forced)" in cli.ok("flag", "set", "on", "--reason", "an experiment", "--force")
    shown = cli.json("flag", "show")
    assert shown["state"] == "on"
    assert isinstance(shown["changes"], list)
    assert shown["changes"][0]["forced"] is True


def test_switching_off_tells_whom_it_does_not_reach(cli: CommandLine) -> None:
    """E12: switching the default off names the workspaces that keep a state of their own."""
    cli.ok("flag", "set", "on", "--reason", "r", "--force", "--workspace", "acme")
    done = cli.run("flag", "set", "off", "--reason", "trouble")
    assert done.exit_code == 0
    assert f"{STATE_OF_OTHERS}: acme on" in done.stderr
    assert "acme: on → nothing" in cli.ok("flag", "unset", "--workspace", "acme", "--reason", "trouble")
    assert cli.json("flag", "show", "--workspace", "acme")["state"] == "off"


def test_one_command_switches_everybody_off(cli: CommandLine) -> None:
    """E12: `flag set off --everywhere` reaches the default and every workspace, and shows what each had."""
    cli.ok("flag", "set", "shadow", "--reason", "r")
    for name, state in (("acme", "on"), ("beta", "50%")):
        cli.ok("flag", "set", state, "--reason", "r", "--force", "--workspace", name)
    page = cli.ok("flag", "set", "off", "--everywhere", "--reason", "an incident", "--by", "bob")
    assert page.splitlines() == ["(default): shadow → off", "acme: on → off", "beta: 50% → off"]
    shown = cli.json("flag", "show")
    assert shown["rows"] == [
        {"workspace": None, "state": "off"},
        {"workspace": "acme", "state": "off"},
        {"workspace": "beta", "state": "off"},
    ]
    assert shown["states"] == [
        {"workspace": name, "state": "off"} for name in ("acme", "beta", DEFAULT_WORKSPACE)
    ]
    assert isinstance(shown["changes"], list)
    assert [change["reason"] for change in shown["changes"][:3]] == ["an incident"] * 3
    done = cli.json("flag", "set", "off", "--everywhere", "--reason", "to be sure")
    assert isinstance(done["changes"], list)
    assert [change["workspace"] for change in done["changes"]] == [None]
    table = cli.ok("flag", "show")
    assert all(name in table for name in ("(default)", "acme", "beta", DEFAULT_WORKSPACE))


def test_everywhere_goes_with_off_only(cli: CommandLine) -> None:
    """E12: nothing but off can be set for everybody at once, and never for one workspace at the same time."""
    for more in (("shadow",), ("0%",), ("off", "--workspace", "acme")):
        cli.fails(2, "invalid_input", "flag", "set", *more, "--everywhere", "--reason", "r")
    assert cli.json("flag", "show")["rows"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("flag", "set", "maybe", "--reason", "r"),
        ("flag", "set", "off", "--reason", " "),
        ("flag", "set", "off", "--reason", "r", "--workspace", ""),
        ("flag", "shadow-report", "--since", "yesterday"),
        ("flag", "shadow-report", "--since", "0d"),
    ],
)
def test_what_makes_no_sense_is_refused(cli: CommandLine, arguments: tuple[str, ...]) -> None:
    """E12: a state, a reason, a workspace or an age that is none ends the command with status 2."""
    cli.fails(2, "invalid_input", *arguments)


def test_a_change_without_a_reason_is_refused(cli: CommandLine) -> None:
    """E3: `flag set` without a reason does nothing."""
    cli.fails(2, "usage", "flag", "set", "off")
    assert cli.json("flag", "show")["changes"] == []


def test_a_report_that_is_none_is_refused(cli: CommandLine, tmp_path: Path) -> None:
    """E3: a file that is no report is refused by name of its fault."""
    path = tmp_path / "notes.json"
    path.write_text('{"decision": "GO"}')
    cli.fails(2, "invalid_report", "flag", "set", "on", "--reason", "r", "--report", str(path))


def test_another_holder_is_shown_and_not_overwritten(tmp_path: Path) -> None:
    """E12: with the flag in a file, the command line shows the file's word and refuses to set a row."""
    path = tmp_path / "flag.json"
    path.write_text(json.dumps({"default": "shadow", "workspaces": {"acme": "50%"}}))
    held = CommandLine(tmp_path / "data", {"CITEWELL_FLAG_PROVIDER": "file", "CITEWELL_FLAG_FILE": str(path)})
    assert [
        held.json("flag", "show")["state"],
        held.json("flag", "show", "--workspace", "acme")["state"],
    ] == [
        "shadow",
        "50%",
    ]
    held.fails(4, "flag_held_elsewhere", "flag", "set", "off", "--reason", "r")
    path.unlink()
    shown = held.json("flag", "show")
    assert (shown["state"], shown["problem"]) == ("off", "the flag file is not there")


def test_the_environment_is_the_fallback(tmp_path: Path) -> None:
    """E12: CORPUS_HYBRID_RETRIEVAL counts while no state is stored, and not after."""
    started = CommandLine(tmp_path / "data", {"CORPUS_HYBRID_RETRIEVAL": "shadow"})
    assert started.json("flag", "show")["state"] == "shadow"
    started.ok("flag", "set", "off", "--reason", "r")
    assert started.json("flag", "show")["state"] == "off"


def test_only_where_nothing_is_stored(tmp_path: Path) -> None:
    """E12: a state for a first start is set by force, kept as that, and never overrules a decision."""
    line = CommandLine(tmp_path / "data", {})
    first = ("flag", "set", "on", "--if-unset", "--force", "--reason", "a first start")
    line.ok(*first)
    shown = line.json("flag", "show")
    assert (shown["state"], len(_changes(shown))) == ("on", 1)
    assert _changes(shown)[0]["forced"] is True
    line.ok("flag", "set", "off", "--reason", "enough")
    line.ok(*first)
    again = line.json("flag", "show")
    assert (again["state"], len(_changes(again))) == ("off", 2)


def _changes(shown: Mapping[str, object]) -> list[dict[str, object]]:
    changes = shown["changes"]
    assert isinstance(changes, list)
    return changes


def compared(minutes: int) -> ShadowComparison:
    """A comparison of some minutes ago."""
    at = datetime.now(UTC) - timedelta(minutes=minutes)
    moves = (RankMove("a#0", 2, 1), RankMove("b#0", 1, 2))
    return ShadowComparison(DEFAULT_WORKSPACE, at, "query", "0" * 32, 2.0, 12.5, None, 1.0, moves)


def fill(settings: Settings) -> None:
    """Two comparisons that ran, one of them old, and one that did not."""

    async def filled() -> None:
        async with open_store(settings) as store:
            degraded = replace(compared(2), degraded="no_model", overlap=None, moves=())
            await SqlShadowLedger(store.engines).add([compared(1), degraded, compared(600)], Retention())

    asyncio.run(filled())


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient[Litestar]]:
    """A client to an application that has seen three requests under shadow."""
    settings = Settings(data_dir=tmp_path / "data")
    fill(settings)
    with TestClient(create_app(settings), raise_server_exceptions=False) as opened:
        yield opened


def test_both_surfaces_report_the_same(client: TestClient[Litestar], cli: CommandLine) -> None:
    """E13: the page and the command show the same: overlap, moves, added latency and reasons."""
    page = client.get("/v1/flag/shadow-report", params={"since": "5h"}).json()
    command = cli.json("flag", "shadow-report", "--since", "5h")
    assert page.pop("since") <= str(command.pop("since"))
    assert page == command
    assert page == {
        "workspace": "default",
        "requests": 2,
        "compared": 1,
        "mean_overlap_at_8": 1.0,
        "median_overlap_at_8": 1.0,
        "identical_top_8": 0.0,
        "moves": {
            "entered": 0,
            "up_3_or_more": 0,
            "up_1_or_2": 1,
            "down_1_or_2": 1,
            "down_3_or_more": 0,
            "left": 0,
        },
        "lexical_ms": {"p50": 2.0, "p95": 2.0},
        "hybrid_ms": {"p50": 12.5, "p95": 12.5},
        "added_ms": {"p50": 10.5, "p95": 10.5},
        "degraded": {"no_model": 1},
        "subjects": {"query": 2},
    }
    assert client.get("/v1/flag/shadow-report").json()["requests"] == 3
    text = cli.ok("flag", "shadow-report")
    assert "3 requests compared" in text
    assert "no_model" in text


@pytest.mark.parametrize("since", ["", "7", "7w", "-1d", "0h", "7d\n", "٣d", "12345d"])
def test_the_page_refuses_an_age_that_is_none(client: TestClient[Litestar], since: str) -> None:
    """E13: an age is a number of hours or days; anything else is a problem that says so."""
    answer = client.get("/v1/flag/shadow-report", params={"since": since})
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (
        400,
        "invalid_input",
        "since",
    )


def test_an_empty_report_is_a_report(cli: CommandLine) -> None:
    """E13: before anything was compared the report says so, and ends well."""
    assert "0 requests compared" in cli.ok("flag", "shadow-report")
    assert cli.json("flag", "shadow-report")["mean_overlap_at_8"] is None
