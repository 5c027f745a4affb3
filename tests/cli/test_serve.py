"""`citewell serve` as a process."""

import json
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest

from service.core.access import is_loopback
from service.surfaces.cli import exit_codes
from tests.cli.commands import CommandLine, Json, item_ids


def address_of(process: "subprocess.Popen[str]") -> str:
    """Where a server says that it listens."""
    assert process.stderr is not None
    for line in process.stderr:
        if "listens on " in line:
            return line.split("listens on ")[1].split()[0]
    raise AssertionError("the server ended")


def asked(address: str, query: str) -> Json:
    """What the server answers to a text."""
    body = json.dumps({"query": query}).encode()
    request = urllib.request.Request(  # noqa: S310 - the server of this test
        f"{address}/v1/retrieve", body, {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - the server of this test
        found = json.load(answer)
    assert isinstance(found, dict)
    return found


def test_it_serves_the_shipped_corpora_and_stops_on_ctrl_c(cli: CommandLine) -> None:
    """U13: a fresh `serve --shipped` answers over HTTP what the command line answers; Ctrl-C ends it with 0."""
    process = cli.process("serve", "--port", "0", "--shipped")
    try:
        address = address_of(process)
        assert address.startswith("http://127.0.0.1:")
        found = asked(address, "NW-SL45/20-D")
        assert item_ids(found)[0] == "sl45-overview-2024"
        assert cli.json("retrieve", "NW-SL45/20-D") == found, "two processes over one database agree"
    finally:
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 0
    assert stdout == ""
    assert "Traceback" not in stderr


@pytest.mark.parametrize(
    "wrong",
    [
        {"CITEWELL_FLAG_PROVIDER": "file"},
        {"CITEWELL_VECTORS": "on", "CITEWELL_QDRANT_URL": "ftp://x"},
        {"CITEWELL_OTEL_ENDPOINT": "collector:4318"},
        {"CITEWELL_OTEL_ENDPOINT": "http://127.0.0.1:4318", "PYTHONPATH": "without"},
    ],
)
def test_what_cannot_be_opened_is_told_in_one_line(
    cli: CommandLine, tmp_path: Path, wrong: dict[str, str]
) -> None:
    """C21: a server whose parts cannot be opened says why in one line, as any command, never that it listens.

    The last of them is an extra that is not installed.
    """
    if "PYTHONPATH" in wrong:
        (tmp_path / "without" / "opentelemetry").mkdir(parents=True)
        (tmp_path / "without" / "opentelemetry" / "__init__.py").write_text(
            "raise ImportError('not installed')"
        )
        wrong = {**wrong, "PYTHONPATH": str(tmp_path / "without")}
    process = CommandLine(cli.data_dir, wrong).process("serve", "--port", "0")
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 2
    assert stdout == ""
    assert "listens" not in stderr
    assert "Traceback" not in stderr
    assert stderr.splitlines()[-1].startswith("error: configuration: ")


def test_what_another_process_ingests_is_served_at_once(cli: CommandLine, tmp_path: Path) -> None:
    """C16: a running service shows a file's new version, and never the old one, once `ingest` has ended."""
    note = tmp_path / "note.md"
    process = cli.process("serve", "--port", "0")
    try:
        address = address_of(process)
        for text in ("the first sill", "the second sill"):
            note.write_text(text)
            cli.ok("ingest", str(note))
            found = asked(address, "sill")
            results = found["results"]
            assert isinstance(results, list)
            assert [result["text"] for result in results] == [text]
        cli.ok("item", "retire", item_ids(found)[0])
        assert asked(address, "sill")["results"] == []
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def test_the_shipped_corpora_are_not_mixed_into_other_data(cli: CommandLine, tmp_path: Path) -> None:
    """A workspace with data of its own is served as it is, though --shipped was said."""
    (tmp_path / "a.txt").write_text("my own sill")
    cli.ok("ingest", str(tmp_path / "a.txt"))
    process = cli.process("serve", "--port", "0", "--shipped")
    try:
        address_of(process)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert len(item_ids(cli.json("retrieve", "sill"))) == 1


def test_other_machines_are_not_let_in_without_keys(cli: CommandLine) -> None:
    """U17: without keys the service refuses every address but loopback, unless it is told otherwise."""
    for host in ("0.0.0.0", "::", "example.com"):  # noqa: S104 - what is refused here
        assert "--allow-remote" in cli.fails(2, "invalid_input", "serve", "--host", host)


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)],  # noqa: S104
)
def test_loopback_is_what_only_this_machine_reaches(address: str, expected: bool) -> None:  # noqa: FBT001
    """U17: loopback addresses and localhost are this machine's own."""
    assert is_loopback(address) is expected


def test_a_port_in_use_is_one_line(cli: CommandLine) -> None:
    """A port that somebody else listens on ends `serve` with 5 and a reason."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = cli.fails(exit_codes.UNAVAILABLE, "unavailable", "serve", "--port", port)
    assert port in line
