"""Documents as the use cases need them: found on disk, cut into passages, read line by line."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from service.errors import CitewellError
from service.model import Capture, ContentType, PassageText


class DocumentFormat(StrEnum):
    """How a document's bytes are written."""

    MARKDOWN = "markdown"
    HTML = "html"
    TEXT = "text"
    PDF = "pdf"


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """A document cut into passages, which are never none.

    `metadata` is what the document states about itself (a Markdown file's front matter): strings, numbers,
    dates and lists as their author wrote them, unchecked.
    """

    title: str | None
    metadata: Mapping[str, object]
    passages: tuple[PassageText, ...]


class DocumentReader(Protocol):
    """Cuts documents into passages."""

    @property
    def rules(self) -> str:
        """Names how documents are cut; another value where the same bytes may give other passages."""
        ...

    def read(self, data: bytes, form: DocumentFormat) -> ReadDocument:
        """The passages of a document. Blocking processor work without shared state: call it in a thread.

        Raises UnreadableDocument, EmptyDocument, TooLarge, InvalidText.
        """
        ...


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to ingest: one document of a format, or, with none, captures one a line. `size` in bytes."""

    path: Path
    form: DocumentFormat | None
    size: int


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A path that gives nothing. A fault when somebody should look: it was named, or cannot be read."""

    path: Path
    reason: str
    is_fault: bool


@dataclass(frozen=True, slots=True)
class FileState:
    """What a file is now: the SHA-256 of its bytes in hexadecimal, and the UTC day it was last modified."""

    digest: str
    modified: date


@dataclass(frozen=True, slots=True)
class FileLine:
    """A line that is not blank, numbered from 1; its bytes are UTF-8, or it has an error and no bytes."""

    number: int
    data: bytes
    error: CitewellError | None = None


class FileSource(Protocol):
    """The file system, read in a fixed order and in bounded memory. Blocking: call it in a thread."""

    def find(self, paths: Sequence[Path]) -> Iterator[FoundFile | PassedOver]:
        """Every file at and under the paths, in the order given and below a directory by name."""
        ...

    def load(self, path: Path, at_most: int) -> tuple[bytes, FileState]:
        """A whole file. Raises UnreadableDocument, and TooLarge for one of more than `at_most` bytes."""
        ...

    def state(self, path: Path) -> FileState:
        """The state of a file that is too large to be held. Raises UnreadableDocument."""
        ...

    def lines(self, path: Path) -> Generator[FileLine, None, None]:
        """The lines of a file, unpacked where it is packed.

        Raises UnreadableDocument after the last good line of a damaged file, and TooLarge for one that
        unpacks to more than it may.
        """
        ...


@dataclass(frozen=True, slots=True)
class FileDefaults:
    """What a capture that does not say so itself is taken to be."""

    filename: str
    content_type: ContentType
    version: str


class LineDecoder(Protocol):
    """Turns one line of a file of captures into a capture."""

    def __call__(self, line: bytes, defaults: FileDefaults) -> Capture:
        """The capture of a line, its text cut into passages. Blocking: call it in a thread.

        Raises InvalidInput, InvalidText, UnknownContentType, EmptyDocument, TooLarge.
        """
        ...
