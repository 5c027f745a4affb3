"""Wheels built from a folder, and environments that have one installed and nothing of the checkout."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE_S = 300.0


def build_wheel(source: Path, target: Path) -> Path:
    """The wheel of a source folder, built without asking any registry."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(target), str(source)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    (wheel,) = target.glob("citewell-*.whl")
    return wheel


def names_in(wheel: Path) -> set[str]:
    """The files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def contents_of(wheel: Path) -> dict[str, int]:
    """The files of a wheel's packages with their checksums."""
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename: info.CRC for info in archive.infolist() if ".dist-info/" not in info.filename}


@dataclass(frozen=True, slots=True)
class Installed:
    """A virtual environment with the wheel, and an empty folder to work in."""

    folder: Path
    home: Path

    @property
    def python(self) -> Path:
        """The environment's Python."""
        return self.folder / "bin" / "python"

    @property
    def variables(self) -> Mapping[str, str]:
        """An environment in which nothing of the checkout is named."""
        kept = {
            name: value
            for name, value in os.environ.items()  # noqa: TID251 - a process needs its path
            if not name.startswith(("CITEWELL_", "CORPUS_", "PYTHON"))
        }
        return {**kept, "CITEWELL_DATA_DIR": str(self.home / "data")}

    def run(self, command: Sequence[str]) -> str:
        """The standard output of a command that succeeds."""
        done = subprocess.run(
            command,
            cwd=self.home,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
        return done.stdout

    def citewell(self, *arguments: str) -> list[str]:
        """A command of the installed program."""
        return [str(self.folder / "bin" / "citewell"), *arguments]


def install(wheel: Path, folder: Path) -> Installed:
    """The wheel in a new environment, its dependencies those of this one.

    They are added by a .pth file, whose folder's own .pth files do not count: an editable install stays out.
    """
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    home = folder / "home"
    home.mkdir()
    installed = Installed(folder / "venv", home)
    command = [sys.executable, "-m", "pip", "--python", str(installed.python), "install", "--quiet"]
    subprocess.run([*command, "--no-deps", "--no-index", str(wheel)], check=True, timeout=PATIENCE_S)
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return installed
