"""Wheels built from a folder, and environments that have one installed and nothing of the checkout."""

import email
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.metadata import Distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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
    """The wheel in a new environment, with what it says it needs and nothing else: no extra, no tool of ours."""
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    home = folder / "home"
    home.mkdir()
    installed = Installed(folder / "venv", home)
    command = [sys.executable, "-m", "pip", "--python", str(installed.python), "install", "--quiet"]
    subprocess.run([*command, "--no-deps", "--no-index", str(wheel)], check=True, timeout=PATIENCE_S)
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    for distribution in needed(requirements_of(wheel)):
        for top in tops_of(distribution):
            place = packages / top
            if not place.exists():
                place.symlink_to(Path(str(distribution.locate_file(top))).resolve())
    return installed


def requirements_of(wheel: Path) -> list[str]:
    """What the wheel says it needs, extras and all."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        message = email.message_from_bytes(archive.read(name))
    return [str(line) for line in message.get_all("Requires-Dist", [])]


def needed(requirements: Iterable[str], extras: Iterable[str] = ("",)) -> list[Distribution]:
    """The installed distributions that such requirements bring, all the way down."""
    found: dict[tuple[str, str], Distribution] = {}
    pending = [(line, extra) for line in requirements for extra in extras]
    while pending:
        line, extra = pending.pop()
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        for wanted in ("", *requirement.extras):
            key = (canonicalize_name(requirement.name), wanted)
            if key not in found:
                found[key] = metadata.distribution(requirement.name)
                pending += [(one, wanted) for one in found[key].requires or ()]
    return list(found.values())


def tops_of(distribution: Distribution) -> set[str]:
    """The files and folders of a distribution beside each other in site-packages."""
    tops = {file.parts[0] for file in distribution.files or ()}
    return {top for top in tops if top not in {"..", "/", "__pycache__"}}
