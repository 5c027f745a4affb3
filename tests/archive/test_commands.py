"""`citewell export` and `citewell import`."""

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.archive.conftest import Original
from tests.cli.commands import COMMAND, CommandLine


@pytest.fixture
def source(original: Original) -> CommandLine:
    """The command line over the filled instance."""
    return CommandLine(original.settings.data_dir)


@pytest.fixture
def target(tmp_path: Path) -> CommandLine:
    """The command line over an empty instance."""
    return CommandLine(tmp_path / "target")


def test_through_a_pipe(source: CommandLine, target: CommandLine) -> None:
    """U22: `citewell export | citewell import -` copies an instance; what is told is on standard error."""
    export = source.run("export")
    assert export.exit_code == 0
    assert "exported 65 items, 145 passages, 4 tags, 3 API keys" in export.stderr
    assert json.loads(export.stdout.splitlines()[0])["record"] == "header"
    told = target.ok("import", "-", stdin=export.stdout_bytes)
    assert told.startswith("imported 65 items")
    again = target.run("export", "-").stdout_bytes
    assert again.splitlines()[1:] == export.stdout_bytes.splitlines()[1:]


def test_through_a_file(source: CommandLine, target: CommandLine, tmp_path: Path) -> None:
    """U22: a file named .gz is packed, readable by its owner alone, and imported with counts as JSON."""
    path = tmp_path / "backup.ndjson.gz"
    source.ok("export", str(path))
    assert path.stat().st_mode & 0o077 == 0
    assert gzip.decompress(path.read_bytes()).startswith(b'{"record":"header"')
    assert [entry.name for entry in tmp_path.iterdir()] == ["backup.ndjson.gz"]
    told = target.json("import", str(path))
    assert told["rows"] == {
        "counter": 1,
        "item": 65,
        "passage": 145,
        "system": 2,
        "attribute": 1,
        "factor": 1,
        "option": 2,
        "tag": 4,
        "tag_event": 7,
        "ingest_progress": 1,
        "flag": 1,
        "flag_change": 3,
        "api_key": 3,
        "change": told["rows"]["change"],  # type: ignore[index]
    }


def test_exit_statuses(source: CommandLine, target: CommandLine, tmp_path: Path) -> None:
    """U22: a damaged archive, a database in use, an unknown workspace and an absent file end as documented."""
    (tmp_path / "damaged.ndjson").write_text("{}\n")
    target.fails(2, "unreadable_document", "import", str(tmp_path / "damaged.ndjson"))
    target.fails(2, "invalid_input", "import", str(tmp_path / "absent.ndjson"))
    source.ok("export", str(tmp_path / "good.ndjson"))
    source.fails(4, "conflict", "import", str(tmp_path / "good.ndjson"))
    source.fails(3, "not_found", "export", "--workspace", "misspelt", str(tmp_path / "none.ndjson"))
    assert not (tmp_path / "none.ndjson").exists()


def test_a_reader_that_goes_away(source: CommandLine) -> None:
    """An export into a pipe whose reader went away ends with its own status."""
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, **source.variables}  # noqa: TID251 - a process needs its path
    done = subprocess.run(
        [COMMAND, "export"], stdout=writing, stderr=subprocess.PIPE, env=environment, check=False
    )
    os.close(writing)
    assert done.returncode == 141


def test_a_device_is_written_to_and_not_replaced(source: CommandLine, tmp_path: Path) -> None:
    """A named pipe in the file's place gets the archive, and stays a pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    environment = {**os.environ, **source.variables}  # noqa: TID251 - a process needs its path
    with subprocess.Popen([COMMAND, "export", str(pipe)], env=environment, stderr=subprocess.PIPE) as process:
        content = pipe.read_bytes()
        process.communicate(timeout=120)
    assert process.returncode == 0
    assert pipe.is_fifo()
    assert json.loads(content.splitlines()[-1])["record"] == "end"
