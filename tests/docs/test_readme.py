"""The README is followed, line by line, in an empty folder."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which

import pytest

from tests.cli.test_serve import address_of
from tests.docs.reading import ROOT, Page

README = Page(ROOT / "README.md")
ADDRESS = "http://127.0.0.1:8000"
PATIENCE_S = 120
# What is not executed here, and why.
LEFT_OUT = {
    "make run VECTORS=1": "make sets up an environment of its own, and one of the models needs a hub",
    "make run": "make sets up an environment of its own; its last line, citewell serve --shipped, is run here",
    "make test": "it is what runs this test",
    ". .venv/bin/activate": "the environment is the one that runs this test",
}
# Keeps the status of an answer: without it curl calls a refusal a success.
CURL = 'curl() { command curl --fail-with-body --show-error "$@"; }; '
_ASSIGNED = re.compile(r"([A-Z]+)=\$\(.*\)")


@dataclass(slots=True)
class Reader:
    """Somebody in a folder who types what the page says."""

    folder: Path
    address: str = ""
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """No settings but those that were typed."""
        mine = {
            name: value
            for name, value in os.environ.items()  # noqa: TID251 - a process needs its path
            if not name.startswith(("CITEWELL_", "CORPUS_"))
        }
        return {**mine, "PATH": f"{Path(sys.executable).parent}:{mine['PATH']}", **self.variables}

    def type(self, line: str) -> str:
        """What is printed; the exit status is 0 and an HTTP status no error."""
        assigned = _ASSIGNED.match(line)
        asked = line.replace(ADDRESS, self.address)
        script = f'{asked}; printf %s "${assigned.group(1)}"' if assigned else asked
        done = subprocess.run(
            ["bash", "-euc", CURL + script],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        if assigned:
            self.variables[assigned.group(1)] = done.stdout
        return done.stdout

    def serve(self) -> "subprocess.Popen[str]":
        """The last line of `make run`, on a free port."""
        return subprocess.Popen(
            ["citewell", "serve", "--shipped", "--port", "0"],
            cwd=self.folder,
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """A reader whose service runs, with the documents that the page speaks of."""
    for tool in ("bash", "curl"):
        if which(tool) is None:
            pytest.skip(f"the README is followed with {tool}, which is not here")
    (tmp_path / "handbook").mkdir()
    (tmp_path / "handbook" / "doors.md").write_text("# Doors\n\nA sill of the handbook.\n")
    (tmp_path / "notes.md").write_text("# Notes\n\nA gasket of the notes.\n")
    capture = {
        "title": "Captured",
        "content_type": "blog",
        "source_type": "url",
        "source_url": "https://example.com/hinge",
        "version": "1",
        "passages": [{"text": "A hinge of the captures."}],
    }
    (tmp_path / "captures.jsonl").write_text(json.dumps(capture) + "\n")
    typing = Reader(tmp_path)
    process = typing.serve()
    try:
        typing.address = address_of(process)
        yield typing
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)


def executed() -> list[str]:
    """What the page says to type, in its order, without what is left out."""
    return [line for line in README.typed() if not line.startswith(tuple(LEFT_OUT))]


def test_what_is_left_out_stands_there() -> None:
    """Each reason for not executing a line belongs to a line of the page."""
    lines = list(README.typed())
    assert [start for start in LEFT_OUT if not any(line.startswith(start) for line in lines)] == []
    assert len(executed()) >= 14


def test_the_readme_can_be_followed(reader: Reader) -> None:
    """Every curl and citewell line of the page works in its order, and what should find passages finds some."""
    printed = {line: reader.type(line) for line in executed()}
    for line, text in printed.items():
        if "/v1/" in line or line.endswith("--json"):
            assert json.loads(text)["results"], line
        elif not line.startswith(("KEY=", "citewell export")):
            assert text.strip(), line
    drilled = next(json.loads(text) for line, text in printed.items() if "--force-arm" in line)
    assert drilled["arms"]["vector"]["state"] == "degraded"
    for word in ("sill of the handbook", "gasket of the notes", "hinge of the captures"):
        for folder in ("data", "restored"):
            found = json.loads(reader.type(f'CITEWELL_DATA_DIR={folder} citewell retrieve "{word}" --json'))
            assert word in found["results"][0]["text"]


def test_the_pages_are_there(reader: Reader) -> None:
    """The page to try a search, the one to sign in, and the OpenAPI document answer without a key."""
    for path in ("/", "/sign-in", "/schema"):
        assert reader.type(f"curl -s {ADDRESS}{path}")
