"""Short ways to run commands."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from click.testing import CliRunner, Result

from service.surfaces.cli import main

Json = dict[str, object]
COMMAND = str(Path(sys.executable).with_name("citewell"))


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Commands over one data directory."""

    data_dir: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """What the commands find in their environment."""
        return {"CITEWELL_DATA_DIR": str(self.data_dir), **self.environment}

    def run(self, *arguments: str, stdin: str | bytes | None = None) -> Result:
        """Run a command in this process."""
        return CliRunner().invoke(main, list(arguments), input=stdin, env=self.variables)

    def ok(self, *arguments: str, stdin: str | bytes | None = None) -> str:
        """The standard output of a command that succeeds."""
        result = self.run(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *arguments: str) -> Json:
        """The JSON object that a command prints."""
        at = arguments.index("--") if "--" in arguments else len(arguments)
        found = json.loads(self.ok(*arguments[:at], "--json", *arguments[at:]))
        assert isinstance(found, dict)
        return found

    def fails(self, status: int, code: str, *arguments: str) -> str:
        """The one line of a command that fails with this exit status and error code."""
        result = self.run(*arguments)
        assert result.exit_code == status, result.output
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"error: {code}: ")
        return line

    def process(self, *arguments: str, stderr: int = subprocess.PIPE) -> "subprocess.Popen[str]":
        """Start a command as a process of its own."""
        return subprocess.Popen(
            [COMMAND, *arguments],
            env={**os.environ, **self.variables},  # noqa: TID251 - a process needs its path
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )


def item_ids(answer: Json) -> list[str]:
    """The item ids of a retrieval's JSON, in order."""
    results = answer["results"]
    assert isinstance(results, list)
    return [str(result["provenance"]["item_id"]) for result in results]
