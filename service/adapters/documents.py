"""Documents and files for the use cases, on the extractors. Implements DocumentReader and FileSource."""

import hashlib
import os
from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from service.adapters.extract import (
    DEFAULT_BUDGET,
    DEFAULT_LIMITS,
    ExtractLimits,
    Format,
    SkippedPath,
    SourceKind,
    TokenBudget,
    discover,
    extract,
    read_ndjson_lines,
    split,
)
from service.errors import TooLarge, UnreadableDocument
from service.ports.documents import (
    DocumentFormat,
    FileLine,
    FileState,
    FoundFile,
    PassedOver,
    ReadDocument,
)

EXTRACTION_RULES = 2  # raise whenever the same bytes may give other passages


class ExtractedDocuments:
    """Documents within limits, cut to a budget; files read a line at a time."""

    def __init__(self, limits: ExtractLimits = DEFAULT_LIMITS, budget: TokenBudget = DEFAULT_BUDGET) -> None:
        self._limits = limits
        self._budget = budget

    @property
    def rules(self) -> str:
        """The version of the extractors and the budget."""
        return f"{EXTRACTION_RULES}/{self._budget.target}/{self._budget.hard}"

    def read(self, data: bytes, form: DocumentFormat) -> ReadDocument:
        """The passages of a document. Raises UnreadableDocument, EmptyDocument, TooLarge, InvalidText."""
        document = extract(data, Format(form.value), self._limits)
        return ReadDocument(document.title, document.metadata, split(document.blocks, self._budget))

    def find(self, paths: Sequence[Path]) -> Iterator[FoundFile | PassedOver]:
        """Every file at and under the paths; what is passed over comes before the file that follows it."""
        passed: list[SkippedPath] = []
        for file in discover(paths, passed.append):
            yield from _passed_over(passed)
            is_document = file.kind is not SourceKind.NDJSON
            form = DocumentFormat(file.kind.value) if is_document else None
            yield FoundFile(file.path, form, _size(file.path))
        yield from _passed_over(passed)

    def load(self, path: Path, at_most: int) -> tuple[bytes, FileState]:
        """A whole file. Raises UnreadableDocument, TooLarge."""
        try:
            with path.open("rb") as stream:
                data = stream.read(at_most + 1)
                modified = os.fstat(stream.fileno()).st_mtime
        except OSError as error:
            raise _unreadable(error) from error
        if len(data) > at_most:
            raise TooLarge(f"the file has more than {at_most} bytes")
        return data, FileState(hashlib.sha256(data).hexdigest(), _day(modified))

    def state(self, path: Path) -> FileState:
        """The state of a file of any size. Raises UnreadableDocument."""
        try:
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
                return FileState(digest, _day(os.fstat(stream.fileno()).st_mtime))
        except OSError as error:
            raise _unreadable(error) from error

    def lines(self, path: Path) -> Generator[FileLine, None, None]:
        """The lines of a file. Raises UnreadableDocument, TooLarge."""
        for line in read_ndjson_lines(path, self._limits):
            yield FileLine(line.number, line.data, line.error)


def _size(path: Path) -> int:
    """0 for a file that has gone since it was found; reading it will say so."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _day(timestamp: float) -> date:
    return datetime.fromtimestamp(timestamp, UTC).date()


def _unreadable(error: OSError) -> UnreadableDocument:
    return UnreadableDocument(f"the file cannot be read: {error.strerror or 'unknown reason'}")


def _passed_over(passed: list[SkippedPath]) -> Iterator[PassedOver]:
    """What the walk reported so far, once."""
    yield from (PassedOver(path.path, path.reason.value, path.is_fault) for path in passed)
    passed.clear()
