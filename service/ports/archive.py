"""An archive: everything authoritative of a database, to be read in one snapshot and stored in one transaction."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from service.errors import UnreadableDocument
from service.model import Workspace

Value: TypeAlias = str | int | float | bool | list[str] | None
Fields: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of one kind, in the archive's order."""

    kind: str
    rows: Sequence[Fields]


@dataclass(frozen=True, slots=True)
class NumberedRecord:
    """What a line of an archive holds, not yet known to be a row; lines count from 1."""

    line: int
    fields: Mapping[str, object]


class ArchiveSnapshot(Protocol):
    """One consistent view of what is authoritative."""

    @property
    def schema(self) -> str:
        """The revision of the database's schema."""
        ...

    @property
    def database_id(self) -> str:
        """The name of the database."""
        ...

    async def count(self) -> int:
        """How many rows `batches` will give."""
        ...

    def batches(self) -> AsyncIterator[Rows]:
        """Every row, kinds in the order of `Archive.kinds` and rows in key order; bounded batches."""
        ...


class Restoration(Protocol):
    """A transaction that fills an empty database."""

    async def store(self, kind: str, records: Sequence[NumberedRecord]) -> None:
        """Store the next rows; kinds come in the order of `Archive.kinds`.

        Raises UnreadableDocument naming the line that is no row of this kind or contradicts others.
        """
        ...


class Archive(Protocol):
    """The database as a whole."""

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds of rows in the order in which an archive holds them."""
        ...

    @property
    def schemas(self) -> Sequence[str]:
        """The schema revisions whose archives can be read."""
        ...

    def reading(self, workspace: Workspace | None) -> AbstractAsyncContextManager[ArchiveSnapshot]:
        """A snapshot of one workspace, or of all. Raises StoreUnavailable."""
        ...

    def restoring(self) -> AbstractAsyncContextManager[Restoration]:
        """Committed on a clean exit, rolled back on an exception; the database then has a new name.

        Raises Conflict unless the database is empty, StorageFull, StoreUnavailable, and UnreadableDocument
        at the end for rows that do not fit together.
        """
        ...


class LineSink(Protocol):
    """Where an archive goes."""

    def write(self, data: bytes, /) -> object:
        """Take whole lines. Blocks. Raises StorageFull, InvalidInput."""
        ...


class LineSource(Protocol):
    """Where an archive comes from."""

    @property
    def fraction(self) -> float | None:
        """How much of the source was read, 0 to 1; None when its size is not known."""
        ...

    def read(self) -> Sequence[bytes]:
        """The next lines with their ends, a bounded number of bytes; none at the end. Blocks.

        Raises UnreadableDocument.
        """
        ...


def refused(line: int, reason: str) -> UnreadableDocument:
    """The error for an archive that cannot be restored."""
    return UnreadableDocument(f"line {line} of the archive {reason}; nothing was stored")
