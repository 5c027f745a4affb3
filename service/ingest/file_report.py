"""What a file ingest is asked to do, tells while it runs, and answers with."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from service.errors import CitewellError
from service.ingest.file_names import FileNaming
from service.model import CaptureResult, ContentType

FAILURES_KEPT = 1_000  # of a report; every one is told as it happens


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """The files to read, and what their documents are taken to be where they do not say so themselves.

    Without a `version` a document's version is the day its file was last modified.
    """

    paths: tuple[Path, ...]
    naming: FileNaming
    content_type: ContentType = ContentType.TECH_DOC
    version: str | None = None
    max_file_bytes: int = 200_000_000


@dataclass(frozen=True, slots=True)
class FileFailure:
    """What could not be stored, and why. `line` is None when it is the whole file."""

    name: str
    line: int | None
    code: str
    detail: str


@dataclass(slots=True)
class IngestReport:
    """Counts so far, in documents unless they say otherwise."""

    files: int = 0
    unchanged_files: int = 0
    stored: int = 0
    superseded: int = 0
    unchanged: int = 0
    passages: int = 0
    failed: int = 0
    skipped: int = 0  # files in a folder that are no documents: hidden, or of an unknown kind
    failures: list[FileFailure] = field(default_factory=list)
    interrupted: bool = False

    def count(self, result: CaptureResult) -> None:
        """Add the outcome of one capture; `passages` are those stored anew."""
        if result.unchanged:
            self.unchanged += 1
            return
        self.stored += 1
        self.passages += result.passages
        self.superseded += result.superseded is not None


class IngestWatch(Protocol):
    """Whoever waits for an ingest."""

    def begin(self, files: int, size: int) -> None:
        """So many files of so many bytes in all are about to be read."""
        ...

    def advanced(self, report: IngestReport, size: int) -> None:
        """So many bytes more have been dealt with."""
        ...

    def failed(self, failure: FileFailure) -> None:
        """Something could not be stored; the ingest goes on."""
        ...

    def should_stop(self) -> bool:
        """Whether to stop after what is being stored."""
        ...


def failure(name: str, line: int | None, error: CitewellError) -> FileFailure:
    """A failure with its stable code; bytes of a name that are no text are written out."""
    shown = name.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return FileFailure(shown, line, error.code, error.detail)
