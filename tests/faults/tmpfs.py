"""A file system of a few megabytes, to be filled up."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """A mounted file system and the file that takes its free space."""

    folder: Path

    def fill(self) -> None:
        """Leave no free byte."""
        with (self.folder / "ballast").open("ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while file.write(b"\0" * size):
                        pass
                except OSError:
                    continue

    def protect(self) -> None:
        """From now on nothing can be written."""
        subprocess.run(["mount", "-o", "remount,ro", str(self.folder)], check=True)

    def free(self) -> None:
        """Give the space back."""
        (self.folder / "ballast").unlink()


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mount one; skips, saying so, where that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.getuid() != 0:
        pytest.skip("a full disk needs a small tmpfs, and mounting one needs root")
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a small tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
