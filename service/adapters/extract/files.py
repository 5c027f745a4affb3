"""Source files under named paths: recursive, in one fixed order, each directory read once."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from service.adapters.extract.document import Format
from service.errors import UnreadableDocument


class SourceKind(StrEnum):
    """What a file holds, by its ending."""

    MARKDOWN = "markdown"
    HTML = "html"
    TEXT = "text"
    PDF = "pdf"
    NDJSON = "ndjson"

    @property
    def document_format(self) -> Format | None:
        """The document format to extract with; None for captures as NDJSON lines."""
        return None if self is SourceKind.NDJSON else Format(self.value)


class SkipReason(StrEnum):
    """Why a path gives no source file."""

    HIDDEN = "hidden"
    UNKNOWN_ENDING = "unknown_ending"
    NOT_A_FILE = "not_a_file"
    ALREADY_READ = "already_read"
    LEADS_OUT = "leads_out"
    NAME_NOT_UTF8 = "name_not_utf8"
    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to ingest."""

    path: Path
    kind: SourceKind


@dataclass(frozen=True, slots=True)
class SkippedPath:
    """A path that was passed over. `named`: it was asked for itself, not found in a directory."""

    path: Path
    reason: SkipReason
    named: bool

    @property
    def is_fault(self) -> bool:
        """Whether somebody should look: asked for and not given, or there and not readable."""
        if self.reason is SkipReason.ALREADY_READ:
            return False
        return self.named or self.reason in (SkipReason.UNREADABLE, SkipReason.NAME_NOT_UTF8)


_KINDS = {
    ".md": SourceKind.MARKDOWN,
    ".markdown": SourceKind.MARKDOWN,
    ".mdown": SourceKind.MARKDOWN,
    ".mkd": SourceKind.MARKDOWN,
    ".html": SourceKind.HTML,
    ".htm": SourceKind.HTML,
    ".xhtml": SourceKind.HTML,
    ".txt": SourceKind.TEXT,
    ".text": SourceKind.TEXT,
    ".pdf": SourceKind.PDF,
    ".jsonl": SourceKind.NDJSON,
    ".ndjson": SourceKind.NDJSON,
    ".jsonl.gz": SourceKind.NDJSON,
    ".ndjson.gz": SourceKind.NDJSON,
}


def stop_at_fault(skipped: SkippedPath) -> None:
    """The default report: silence for what is passed over by design.

    Raises:
        UnreadableDocument: the path was asked for, or is there and cannot be read.
    """
    if skipped.is_fault:
        raise UnreadableDocument(f"{skipped.path.name!r} cannot be read: {skipped.reason.value}.")


def discover(
    paths: Sequence[Path], report: Callable[[SkippedPath], None] = stop_at_fault
) -> Iterator[SourceFile]:
    """The source files at and under `paths`: in the order given, below a directory by name.

    `report` hears of every path passed over, as it is met; the walk goes on after it returns. Hidden names
    are passed over inside directories only. Links inside a directory are followed where they stay inside it: what
    lies elsewhere was not asked for. No directory is read twice, so a loop of links ends.
    """
    walk = _Walk(report)
    for path in paths:
        yield from walk.below(path)


class _Walk:
    def __init__(self, report: Callable[[SkippedPath], None]) -> None:
        self._report = report
        self._read: set[tuple[int, int]] = set()

    def below(self, root: Path) -> Iterator[SourceFile]:
        waiting = [root]  # a stack, last first: a tree may be deeper than Python's
        while waiting:
            path = waiting.pop()
            found = SkipReason.LEADS_OUT if _leads_out(path, root) else self._looked_at(path, root)
            if isinstance(found, SourceFile):
                yield found
            elif isinstance(found, SkipReason):
                self._report(SkippedPath(path, found, path is root))
            else:
                waiting.extend(reversed(found))

    def _looked_at(self, path: Path, root: Path) -> SourceFile | SkipReason | list[Path]:
        """The source file, or why there is none, or what a directory holds."""
        if path.name.startswith(".") and path is not root:
            return SkipReason.HIDDEN
        try:
            status = path.stat()
            if S_ISDIR(status.st_mode):
                return self._entries(path, (status.st_dev, status.st_ino))
        except (FileNotFoundError, NotADirectoryError):
            return SkipReason.MISSING
        except OSError:  # no permission, a loop of links, a name too long
            return SkipReason.UNREADABLE
        except ValueError:  # a NUL in the name
            return SkipReason.MISSING
        return _as_source(path) if S_ISREG(status.st_mode) else SkipReason.NOT_A_FILE

    def _entries(self, directory: Path, identity: tuple[int, int]) -> list[Path] | SkipReason:
        if identity in self._read:
            return SkipReason.ALREADY_READ
        self._read.add(identity)
        return sorted(directory.iterdir())


def _leads_out(path: Path, root: Path) -> bool:
    """Whether a link inside the root leads to what is outside of it; one that leads nowhere does not."""
    try:
        return path is not root and path.is_symlink() and not _is_below(path.resolve(strict=True), root)
    except (OSError, RuntimeError, ValueError):  # RuntimeError: a loop of links
        return False


def _is_below(path: Path, root: Path) -> bool:
    return path.is_relative_to(root.resolve())


def _as_source(path: Path) -> SourceFile | SkipReason:
    kind = _kind(path.name.lower())
    if kind is None:
        return SkipReason.UNKNOWN_ENDING
    try:
        path.name.encode()
    except UnicodeEncodeError:
        return SkipReason.NAME_NOT_UTF8
    return SourceFile(path, kind)


def _kind(name: str) -> SourceKind | None:
    return next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), None)
