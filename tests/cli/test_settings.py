"""`citewell settings show`."""

import json
import sys
from pathlib import Path

import pytest

from service.settings import Settings
from service.surfaces.cli.configuration import HIDDEN, shown_value, variable
from tests.cli.commands import CommandLine
from tests.faults.tmpfs import small_disk


def test_every_setting_is_shown_with_its_variable_and_purpose(cli: CommandLine) -> None:
    """Every setting stands there with the variable that sets it, its value, and a description."""
    shown = json.loads(cli.ok("settings", "show", "--json"))
    assert [row["variable"] for row in shown] == [variable(name) for name in Settings.model_fields]
    assert all(row["description"] for row in shown)
    values = {row["variable"]: row["value"] for row in shown}
    assert values["CITEWELL_DATA_DIR"] == str(cli.data_dir)
    assert "CORPUS_HYBRID_RETRIEVAL" in values
    assert "CITEWELL_DATA_DIR" in cli.ok("settings", "show")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://citewell:hunter2@db.example/citewell",
        "postgresql://citewell:p@ss:hunter2@db.example:5432/citewell",
        "postgresql://citewell@/citewell?host=/run/pg&password=hunter2",
        "https://qdrant.example?api_key=hunter2&x=1",
    ],
)
def test_no_secret_is_shown(url: str) -> None:
    """Passwords and keys inside URLs are masked; the rest of the URL stays readable."""
    shown = shown_value(url)
    assert "hunter2" not in shown
    assert HIDDEN in shown
    assert ".example" in shown or "/citewell?host=/run/pg" in shown


def test_secrets_of_the_environment_are_masked(cli: CommandLine) -> None:
    """A setting that is a secret is shown as set, never with its value."""
    broken = CommandLine(cli.data_dir, {"CITEWELL_QDRANT_API_KEY": "hunter2"})
    page = broken.ok("settings", "show")
    assert "hunter2" not in page
    assert HIDDEN in page


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CITEWELL_QDRANT_URL", "ftp://qdrant"),
        ("CITEWELL_QDRANT_URL", "localhost:6333"),
        ("CITEWELL_QDRANT_URL", "http://localhost:notaport"),
        ("CITEWELL_QDRANT_URL", "http://:6333"),
        ("CORPUS_HYBRID_RETRIEVAL", "banana"),
        ("CITEWELL_PORT", "70000"),
    ],
)
@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("retrieve", "sill"), ("vectors", "status")])
def test_a_wrong_value_is_told_with_its_variable(
    cli: CommandLine, variable: str, value: str, command: tuple[str, ...]
) -> None:
    """C21: whatever the command, a setting that cannot be meant is one line naming it; nothing is begun."""
    assert variable in CommandLine(cli.data_dir, {variable: value}).fails(2, "configuration", *command)
    assert not cli.data_dir.exists()


@pytest.mark.parametrize("command", [("retrieve", "sill"), ("keys", "list"), ("serve", "--port", "0")])
def test_a_folder_that_cannot_be_made(tmp_path: Path, command: tuple[str, ...]) -> None:
    """C21: a data folder that is a file, or under one, is a wrong setting and no defect."""
    (tmp_path / "file").write_text("in the way")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        line = CommandLine(place, {}).fails(2, "configuration", *command)
        assert "cannot be made" in line
        assert "CITEWELL_DATA_DIR" in line


@pytest.mark.parametrize("command", [("retrieve", "sill"), ("keys", "list"), ("serve", "--port", "0")])
def test_a_file_that_is_no_database(cli: CommandLine, command: tuple[str, ...]) -> None:
    """C21: what is no database is said to be none, with its place; nobody is told to try again."""
    cli.data_dir.mkdir(parents=True)
    (cli.data_dir / "citewell.db").write_bytes(b"something else entirely, " * 1_000)
    line = cli.fails(2, "configuration", *command)
    assert "no database" in line
    assert str(cli.data_dir / "citewell.db") in line


def test_a_read_only_folder(tmp_path: Path) -> None:
    """C21: a database that cannot be written is told with its place; nobody is told to try again."""
    with small_disk(tmp_path / "disk", 16) as disk:
        cli = CommandLine(disk.folder / "data")
        cli.ok("keys", "list")
        disk.protect()
        for command in (("retrieve", "sill"), ("keys", "list"), ("export", "-"), ("serve", "--port", "0")):
            line = cli.fails(2, "configuration", *command)
            assert "writable" in line
            assert str(cli.data_dir) in line


def test_a_driver_that_is_not_installed(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """C21: a database whose driver is an extra says how to install it."""
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    elsewhere = CommandLine(cli.data_dir, {"CITEWELL_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none"})
    assert "citewell[postgres]" in elsewhere.fails(2, "configuration", "keys", "list")
