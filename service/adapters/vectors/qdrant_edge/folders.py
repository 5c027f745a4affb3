"""The store on disk. Everything here blocks, and belongs to the one process that holds the root's lock.

<root>/lock                         held while a store is open
<root>/<collection>/meta.json       dimension, incarnation, and which shard folder is in use
<root>/<collection>/shard-<hex>/    Edge's own files; folders that meta.json does not name are leftovers
<root>/aside/<collection>/          the last damaged collection of that name
"""

import fcntl
import os
import re
import shutil
import uuid
from pathlib import Path

import msgspec

from service.ports.vectors import CollectionName

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
_ASIDE = "aside"


class Meta(msgspec.Struct, frozen=True):
    """What is known of a collection without opening it."""

    dimension: int
    incarnation: str
    shard: str


class RootLock:
    """The right to use a root, until `release` or the end of the process."""

    def __init__(self, root: Path) -> None:
        """Raises BlockingIOError when another process, or another store of this one, holds it."""
        root.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(root / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        """Let another process have it."""
        os.close(self._descriptor)


def checked(name: CollectionName) -> CollectionName:
    """The name. Raises ValueError for what cannot be a collection's folder."""
    if not _NAME.fullmatch(name) or name == _ASIDE:
        raise ValueError("a collection's name holds small letters, digits and dashes")
    return name


def folder(root: Path, name: CollectionName) -> Path:
    """Where the collection lives."""
    return root / checked(name)


def names(root: Path) -> list[CollectionName]:
    """Every collection, in order of name."""
    if not root.is_dir():
        return []
    found = (entry.name for entry in root.iterdir() if (entry / "meta.json").is_file())
    return sorted(CollectionName(name) for name in found if name != _ASIDE)


def read_meta(collection: Path) -> Meta | None:
    """What meta.json says; None when there is no collection. Raises ValueError when it is damaged."""
    try:
        return msgspec.json.decode((collection / "meta.json").read_bytes(), type=Meta)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.MsgspecError as error:
        raise ValueError("meta.json is damaged") from error


def write_meta(collection: Path, meta: Meta) -> None:
    """Replace meta.json in one step, durably."""
    collection.mkdir(parents=True, exist_ok=True)
    fresh = collection / "meta.json.new"
    with fresh.open("wb") as file:
        file.write(msgspec.json.encode(meta))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(collection / "meta.json")
    _sync_folder(collection)


def create(collection: Path, dimension: int) -> Meta:
    """A new incarnation whose shard folder is yet to be made."""
    meta = Meta(dimension, uuid.uuid4().hex, new_shard())
    write_meta(collection, meta)
    return meta


def new_shard() -> str:
    """A shard folder's name that was never used before."""
    return f"shard-{uuid.uuid4().hex[:12]}"


def remove_leftovers(collection: Path, meta: Meta) -> None:
    """Delete the shard folders of builds and switches that were interrupted."""
    for entry in collection.glob("shard-*"):
        if entry.name != meta.shard:
            shutil.rmtree(entry, ignore_errors=True)


def set_aside(root: Path, name: CollectionName) -> None:
    """Move what is left of a collection out of the way, for somebody to look at; one a name is kept."""
    kept = root / _ASIDE / name
    shutil.rmtree(kept, ignore_errors=True)
    kept.parent.mkdir(parents=True, exist_ok=True)
    try:
        (root / name).rename(kept)
    except FileNotFoundError:
        return  # it was deleted, not damaged


def remove(root: Path, name: CollectionName) -> None:
    """Delete the collection and what was set aside of it. Its name is freed first, in one step."""
    doomed = root / _ASIDE / f"{name}.dropped-{uuid.uuid4().hex[:12]}"
    doomed.parent.mkdir(parents=True, exist_ok=True)
    try:
        (root / name).rename(doomed)
    except FileNotFoundError:
        return
    shutil.rmtree(doomed, ignore_errors=True)
    shutil.rmtree(root / _ASIDE / name, ignore_errors=True)


def free_bytes(root: Path) -> int:
    """Free space where the store lives, or would live if its root was deleted."""
    while not root.exists():
        root = root.parent
    room = os.statvfs(root)
    return room.f_bavail * room.f_frsize


def size_bytes(directory: Path) -> int:
    """Space that the files below really take."""
    return sum(entry.stat().st_blocks * 512 for entry in directory.rglob("*") if entry.is_file())


def _sync_folder(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
