"""The program as a whole: its commands, its help, and how it ends."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import service
from service import errors
from service.surfaces.cli import exit_codes, main
from service.surfaces.cli.exit_codes import exit_code
from service.surfaces.cli.program import ENTRIES, EXTENSIONS
from tests.cli.commands import CommandLine


@pytest.mark.parametrize("name", ENTRIES)
def test_every_command_is_what_the_table_says(name: str) -> None:
    """The table's line about a command is the first line of that command's own help."""
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name == name
    assert (command.help or "").splitlines()[0] == ENTRIES[name].help or name in (
        "ingest",
        "retrieve",
        "serve",
        "demo",
    )
    assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0


def test_the_help_page_documents_every_exit_status() -> None:
    """U22: `citewell --help` lists each exit status with its meaning."""
    page = CliRunner().invoke(main, ["--help"]).stdout
    for code, meaning in exit_codes.MEANINGS.items():
        assert f"{code:<4} {meaning}" in page


def test_the_readme_documents_the_exit_statuses() -> None:
    """U22: the README's table of exit statuses says what the program does."""
    readme = (Path(service.__file__).parents[1] / "README.md").read_text()
    rows = dict(re.findall(r"^\| (\d+) \| (.+) \|$", readme, re.MULTILINE))
    assert {"0", "1", "2", "3", "4", "5"} <= rows.keys()
    assert all(exit_codes.MEANINGS[int(code)] == meaning for code, meaning in rows.items())


def test_other_packages_add_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package's entry point under `citewell.commands` is a command; one that cannot be loaded says why."""
    package = tmp_path / "greeting-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    points = ["hello = service.surfaces.cli.database:db", "broken = no_such_module:group"]
    (package / "entry_points.txt").write_text("\n".join([f"[{EXTENSIONS}]", *points]))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "See citewell hello --help." in CliRunner().invoke(main, ["--help"]).stdout
    assert "upgrade" in CliRunner().invoke(main, ["hello", "--help"]).stdout
    refused = CliRunner().invoke(main, ["broken"])
    assert (refused.exit_code, "no_such_module" in refused.stderr) == (exit_codes.USAGE, True)


def test_the_help_page_loads_no_database() -> None:
    """Asking for help is fast: nothing heavy is imported for it."""
    script = (
        "import sys\nfrom service.surfaces.cli import main\n"
        "try:\n    main(['--help'])\nfinally:\n"
        "    print(sorted({'sqlalchemy', 'tantivy', 'rich', 'uvicorn', 'litestar'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InvalidInput, 2),
        (errors.InvalidLimit, 2),
        (errors.TooLarge, 2),
        (errors.ConfigurationError, 2),
        (errors.ItemNotFound, 3),
        (errors.TagNotFound, 3),
        (errors.FacetNotFound, 3),
        (errors.ItemExists, 4),
        (errors.SupersessionCycle, 4),
        (errors.StoreUnavailable, 5),
        (errors.LexicalIndexUnavailable, 5),
    ],
)
def test_every_kind_of_error_has_its_exit_status(error: type[errors.CitewellError], status: int) -> None:
    """U22: wrong input ends with 2, absence with 3, a conflict with 4, unavailability with 5."""
    assert exit_code(error("detail")) == status


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-command",),
        ("retrieve", "--no-such-option"),
        ("item", "show"),
        ("tags", "list", "--status", "x"),
    ],
)
def test_a_wrong_command_is_one_line(cli: CommandLine, arguments: tuple[str, ...]) -> None:
    """A usage error is one line on standard error that says where help is, and ends with 2."""
    assert cli.fails(2, "usage", *arguments).endswith("--help')")


def test_no_command_shows_the_help_page(cli: CommandLine) -> None:
    """Without a command the help page is shown, as an error."""
    result = cli.run()
    assert (result.exit_code, "Commands:" in result.stderr) == (2, True)


def test_a_wrong_setting_is_one_line(cli: CommandLine) -> None:
    """A setting that cannot be is named, before anything is opened."""
    broken = CommandLine(cli.data_dir, {"CITEWELL_PORT": "many"})
    assert "CITEWELL_PORT" in broken.fails(2, "configuration", "item", "show", "x")


def test_an_unreachable_database_is_one_line(cli: CommandLine) -> None:
    """A database that does not answer ends a command with 5, without a traceback or a password."""
    url = "postgresql://somebody:hunter2@127.0.0.1:1/nowhere"
    line = CommandLine(cli.data_dir, {"CITEWELL_DATABASE_URL": url}).fails(
        5, "store_unavailable", "item", "show", "x"
    )
    assert "hunter2" not in line


def test_a_defect_is_one_line_too() -> None:
    """Even an error that nobody foresaw is one line and has an exit status of its own."""
    script = (
        "from service.surfaces.cli import main, program\n"
        "program.ENTRIES = {'demo': program.Entry('no_such_module:demo', '')}\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", script, "demo"], capture_output=True, text=True, check=False)
    assert done.returncode == exit_codes.INTERNAL
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: internal: ModuleNotFoundError: ")


def test_a_reader_that_goes_away_ends_a_command_quietly(shop: CommandLine) -> None:
    """A broken pipe is no error to be shown: nothing on standard error, and a status that says so."""
    process = shop.process("retrieve", "sill", "--limit", "200")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(30) == exit_codes.BROKEN_PIPE
    process.stderr.close()
