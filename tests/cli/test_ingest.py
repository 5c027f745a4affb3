"""`citewell ingest`, in this process and as a process of its own."""

import json
import os
import pty
import signal
import time
from pathlib import Path

import pytest

from service.ingest.file_report import FileFailure, IngestReport
from service.surfaces.cli import exit_codes
from service.surfaces.cli.ingest_progress import failure_line
from service.surfaces.cli.ingesting import summary
from tests.cli.commands import CommandLine, item_ids
from tests.ingest.parts import capture_line, write_lines


def test_what_was_stored_is_told_for_people_and_for_programs(cli: CommandLine, tmp_path: Path) -> None:
    """Results are on standard output and nothing else is; the counts are the same in both forms."""
    write_lines(tmp_path / "docs.jsonl", [capture_line(n, f"sill {n}") for n in range(3)])
    (tmp_path / "a.md").write_text("# T\n\nsill drains")
    first = cli.run("ingest", str(tmp_path))
    assert first.exit_code == 0
    assert first.stdout.startswith(
        "4 documents stored (4 passages), 0 superseded, 0 unchanged, 0 failed, 2 files, 0 of them unchanged"
    )
    again = cli.json("ingest", str(tmp_path))
    assert again.pop("skipped") != 0  # the database stands in the same folder
    assert again == {
        "files": 2,
        "unchanged_files": 2,
        "stored": 0,
        "superseded": 0,
        "unchanged": 0,
        "passages": 0,
        "failed": 0,
        "failures": [],
        "interrupted": False,
    }


def test_failures_are_told_by_name_line_and_code(cli: CommandLine, tmp_path: Path) -> None:
    """U22: an import in part ends with 1; every failure is a line on standard error, the rest is stored."""
    write_lines(tmp_path / "docs.jsonl", [capture_line(0, "sill"), "not json", capture_line(2, "sill")])
    (tmp_path / "empty.html").write_text("<script>1</script>")
    result = cli.run("ingest", str(tmp_path), "--base", str(tmp_path), "--json")
    assert result.exit_code == exit_codes.PARTIAL
    assert [(f["name"], f["line"], f["code"]) for f in json.loads(result.stdout)["failures"]] == [
        ("docs.jsonl", 2, "invalid_input"),
        ("empty.html", None, "empty_document"),
    ]
    assert [line.split(": ")[:3] for line in result.stderr.splitlines()] == [
        ["failed", "docs.jsonl:2", "invalid_input"],
        ["failed", "empty.html", "empty_document"],
    ]
    assert item_ids(cli.json("retrieve", "sill")) == ["n0", "n2"]


def test_names_that_are_no_text_are_told_too(cli: CommandLine, tmp_path: Path) -> None:
    """A file or folder whose name is not UTF-8 is a failure with a readable name, in both forms."""
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for name in (b"a\xff.md", b"b\xfe/c.md"):
        path = Path(os.fsdecode(os.fsencode(inbox) + b"/" + name))
        path.parent.mkdir(exist_ok=True)
        path.write_text("the sill")
    (inbox / "good.md").write_text("the sill")
    for arguments in (("--json",), ()):
        result = cli.run("ingest", str(inbox), "--base", str(inbox), *arguments)
        assert result.exit_code == exit_codes.PARTIAL
        assert "a\\xff.md" in result.stderr
        assert "b\\xfe/c.md" in result.stderr
    assert len(item_ids(cli.json("retrieve", "sill"))) == 1


def test_options_say_what_the_documents_are(cli: CommandLine, tmp_path: Path) -> None:
    """C1: content type, version and source URL come from the options where documents do not state them."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sill page.html").write_text("<h1>Sills</h1><p>The sill drains.</p>")
    options = ["--content-type", "blog", "--version", "v9", "--base", str(tmp_path / "site")]
    cli.ok("ingest", str(tmp_path / "site"), *options, "--url-prefix", "https://a.example/docs")
    shown = cli.json("retrieve", "sill", "--content-type", "blog")["results"]
    assert isinstance(shown, list)
    provenance = shown[0]["provenance"]
    assert (provenance["version"], provenance["source_type"]) == ("v9", "url")
    assert provenance["source_url"] == "https://a.example/docs/sill%20page.html"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), "usage"),
        (("x.md", "--content-type", "poem"), "unknown_content_type"),
        (("x.md", "--url-prefix", "ftp://a"), "invalid_input"),
        (("x.md", "--base", "/no/such/folder"), "usage"),
    ],
)
def test_wrong_options_are_refused(cli: CommandLine, arguments: tuple[str, ...], code: str) -> None:
    """Wrong options end with 2 before anything is read."""
    cli.fails(2, code, "ingest", *arguments)


def test_ctrl_c_stops_between_batches_and_the_next_run_goes_on(cli: CommandLine, tmp_path: Path) -> None:
    """Ctrl-C ends an ingest after its current batch with 130, keeps what it says, and is resumed."""
    total = 20_000
    write_lines(tmp_path / "docs.jsonl", [capture_line(n, f"sill {n}") for n in range(total)])
    process = cli.process("ingest", str(tmp_path), "--json")
    database = cli.data_dir / "citewell.db-wal"
    give_up = time.monotonic() + 30
    while not (database.exists() and database.stat().st_size > 1_000_000) and time.monotonic() < give_up:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == exit_codes.INTERRUPTED, stderr
    first = json.loads(stdout)
    assert first["interrupted"] is True
    assert 0 < first["stored"] < total
    assert "run the same command again" in stderr
    process = cli.process("ingest", str(tmp_path), "--json")
    stdout, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert json.loads(stdout)["stored"] == total - first["stored"]


def test_a_terminal_shows_a_bar(cli: CommandLine, tmp_path: Path) -> None:
    """On a terminal progress is a bar on standard error; standard output has the result alone."""
    write_lines(tmp_path / "docs.jsonl", [capture_line(n, f"sill {n}") for n in range(2_000)])
    main_end, terminal = pty.openpty()
    process = cli.process("ingest", str(tmp_path), stderr=terminal)
    os.close(terminal)
    drawn = b""
    while True:
        try:
            piece = os.read(main_end, 4_096)
        except OSError:  # the terminal is closed
            break
        if not piece:
            break
        drawn += piece
    stdout, _ = process.communicate(timeout=60)
    os.close(main_end)
    assert process.returncode == 0
    assert stdout.startswith("2000 documents stored")
    assert "━".encode() in drawn


def test_a_failure_and_a_summary_are_one_line_each() -> None:
    """Whatever happened fits a line that can be searched for."""
    failure = FileFailure("docs/a.jsonl", 7, "invalid_input", "the line is not JSON")
    assert failure_line(failure) == "failed: docs/a.jsonl:7: invalid_input: the line is not JSON"
    assert len(summary(IngestReport(stored=3, passages=9)).splitlines()) == 1
