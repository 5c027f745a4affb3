"""The index folder on disk: one locked slot a process, and per workspace a generation and its checkpoint.

A checkpoint holds the exact counts at a sequence number. After a crash the index may hold more than the
checkpoint knows, never less; the log is replayed from there. Files are checked by tantivy's own checksums, so
that those which a crash or a merge left behind the last checkpoint are checked too.
"""

import fcntl
import hashlib
import os
import secrets
import shutil
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec
import structlog

from service.adapters.lexical.checksums import all_intact
from service.adapters.lexical.engine import FORMAT
from service.adapters.lexical.statistics import Counts, counts_of
from service.core.tokenize import RULES_VERSION
from service.errors import ConfigurationError
from service.model import Workspace

_log = structlog.get_logger(__name__)
MAX_SLOTS = 64
_TRIES = 5  # at a lock file, while somebody deletes the folder
_CHECKPOINT = "checkpoint"
_LAYOUT = 2  # of the checkpoint
VERSION = f"{FORMAT}.{RULES_VERSION}.{_LAYOUT}"


class DamagedFolder(Exception):
    """The folder cannot be trusted: a file is missing, altered, or of another database or version."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is known of an index at a sequence number of the history that `nonce` tells.

    `leaving` are stale passages not yet removed.
    """

    seq: int
    nonce: int
    counts: Counts
    leaving: tuple[int, ...]


class Slot:
    """A folder that this process alone uses. Raises ConfigurationError when every slot is taken.

    Who deletes the folder takes the lock away with it, and another process may have the same number by then. So
    whoever writes asks first. `taken` counts how often a slot was taken: what was made in an earlier one is lost.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock, self.path = _take_slot(root)
        self.taken = 1

    def workspace(self, workspace: Workspace) -> "WorkspaceFolder":
        """The folder of one workspace; any name is a valid folder name."""
        return WorkspaceFolder(self, hashlib.sha256(workspace.encode()).hexdigest()[:32])

    @property
    def is_own(self) -> bool:
        """Whether the lock that is held is still the folder's."""
        return _is_file(self._lock, self.path / "lock")

    def keep(self) -> None:
        """Take a free slot where the one that was had is lost. Raises OSError."""
        if self.is_own:
            return
        try:
            lock, path = _take_slot(self._root)
        except ConfigurationError as error:
            raise OSError(str(error)) from error
        _log.warning("lexical_slot_lost", lost=self.path.name, taken=path.name)
        self._lock.close()
        self._lock, self.path = lock, path
        self.taken += 1

    def release(self) -> None:
        """Let another process have the slot."""
        self._lock.close()


def _take_slot(root: Path) -> tuple[IO[bytes], Path]:
    for number in range(MAX_SLOTS):
        path = root / f"slot-{number}"
        try:
            lock = _locked(path)
        except OSError as error:
            raise ConfigurationError("the lexical index folder cannot be written") from error
        if lock is not None:
            return lock, path
    raise ConfigurationError(f"all {MAX_SLOTS} lexical index slots are in use by other processes")


def _locked(slot: Path) -> IO[bytes] | None:
    """A slot's lock file, locked; None where another process has it. Raises OSError.

    Whoever deletes the folder between the opening and the locking leaves a lock on a file that nobody else sees.
    """
    for _ in range(_TRIES):
        try:
            slot.mkdir(parents=True, exist_ok=True)
            lock = (slot / "lock").open("wb")
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            if isinstance(error, BlockingIOError):
                return None
            raise
        if _is_file(lock, slot / "lock"):
            return lock
        lock.close()
    raise OSError("the index folder is deleted again and again")


def _is_file(opened: IO[bytes], path: Path) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(opened.fileno()), path.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False


@dataclass(slots=True)
class WorkspaceFolder:
    """Generations of one workspace's index; the newest complete one is named by its checkpoint.

    No name is used twice, by whatever process: who still has the files of a deleted generation open, and a merge
    under way, never hits another's.
    """

    slot: Slot
    name: str
    _made_in: dict[Path, int] = field(default_factory=dict)  # which taking of a slot a generation is of

    @property
    def path(self) -> Path:
        """Where the generations are."""
        return self.slot.path / self.name

    def current(self) -> Path | None:
        """The newest generation with a checkpoint. Raises OSError."""
        self.slot.keep()
        complete = [g for g in self._generations() if (g / _CHECKPOINT).exists()]
        return self._noted(complete[-1]) if complete else None

    def next_generation(self) -> Path:
        """A new, empty folder for a rebuild. Raises OSError."""
        self.slot.keep()
        numbers = [int(g.name[1:].partition("-")[0]) for g in self._generations()]
        path = self.path / f"g{max(numbers, default=0) + 1:08d}-{secrets.token_hex(4)}"
        path.mkdir(parents=True)
        return self._noted(path)

    def require(self, generation: Path) -> None:
        """Raises OSError where a generation is not this process's any more."""
        if not self._has(generation):
            raise OSError("the index folder was deleted or is another process's by now")

    def remove(self, generation: Path) -> None:
        """Remove a generation, if it is this process's."""
        if self._has(generation):
            shutil.rmtree(generation, ignore_errors=True)
        self._made_in.pop(generation, None)

    def drop_others(self, keep: Path) -> None:
        """Remove every generation but one."""
        if self._has(keep):
            self._made_in = {keep: self._made_in[keep]}
            for generation in self._generations():
                if generation != keep:
                    shutil.rmtree(generation, ignore_errors=True)

    def _has(self, generation: Path) -> bool:
        return self.slot.is_own and self._made_in.get(generation) == self.slot.taken

    def _noted(self, generation: Path) -> Path:
        self._made_in[generation] = self.slot.taken
        return generation

    def save(self, generation: Path, checkpoint: Checkpoint, database_id: str) -> None:
        """Write a checkpoint so that a crash leaves the old one or the new one. Raises OSError."""
        self.require(generation)
        body = msgspec.msgpack.encode(
            {
                "version": VERSION,
                "database_id": database_id,
                "seq": checkpoint.seq,
                "nonce": checkpoint.nonce,
                "passages": checkpoint.counts.passages,
                "length": checkpoint.counts.length,
                "frequency": checkpoint.counts.frequency,
                "leaving": checkpoint.leaving,
            }
        )
        temporary = generation / f"{_CHECKPOINT}.new"
        with temporary.open("wb") as file:
            file.write(zlib.crc32(body).to_bytes(4, "big") + body)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(generation / _CHECKPOINT)

    def load(self, generation: Path, database_id: str) -> Checkpoint:
        """The checkpoint of a generation whose files are what they were. Raises DamagedFolder.

        Whether the database still has that history is to be asked of the database.
        """
        try:
            raw = (generation / _CHECKPOINT).read_bytes()
            stored = msgspec.msgpack.decode(raw[4:], type=dict[str, object])
            if zlib.crc32(raw[4:]) != int.from_bytes(raw[:4], "big"):
                raise DamagedFolder("the checkpoint is damaged")
            _check(generation, stored, database_id)
            leaving = tuple(int(key) for key in stored["leaving"])  # type: ignore[attr-defined]
            seq, nonce = int(stored["seq"]), int(stored["nonce"])  # type: ignore[call-overload]
            return Checkpoint(seq, nonce, counts_of(stored), leaving)
        except (OSError, ValueError, LookupError, TypeError, msgspec.MsgspecError) as error:
            raise DamagedFolder("the checkpoint cannot be read") from error

    def _generations(self) -> list[Path]:
        if not self.path.exists():
            return []
        return sorted(path for path in self.path.iterdir() if path.name.startswith("g") and path.is_dir())


def _check(generation: Path, stored: dict[str, object], database_id: str) -> None:
    if stored["version"] != VERSION:
        raise DamagedFolder("the index was written by another version")
    if stored["database_id"] != database_id:
        raise DamagedFolder("the index belongs to another database")
    if not all_intact(generation):
        raise DamagedFolder("an index file was altered")
