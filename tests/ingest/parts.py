"""Short ways to ingest files in a test."""

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from service.bootstrap import Application
from service.ingest.file_names import FileNaming
from service.ingest.file_report import FileFailure, IngestReport, IngestRequest
from service.model import DEFAULT_WORKSPACE, ContentType, Item, ItemId
from service.surfaces.captures import CaptureLines


@dataclass(slots=True)
class Watch:
    """Remembers what it was told; stops after `stop_after` reports of progress. Implements IngestWatch."""

    stop_after: int | None = None
    failures: list[FileFailure] = field(default_factory=list)
    files: int = 0
    size: int = 0
    done: int = 0
    reports: int = 0

    def begin(self, files: int, size: int) -> None:
        """Remember how much there is."""
        self.files, self.size = files, size

    def advanced(self, report: IngestReport, size: int) -> None:
        """Count."""
        self.done += size
        self.reports += 1

    def failed(self, failure: FileFailure) -> None:
        """Remember."""
        self.failures.append(failure)

    def should_stop(self) -> bool:
        """Whether enough was seen."""
        return self.stop_after is not None and self.reports >= self.stop_after


def request(
    base: Path,
    *paths: Path,
    content_type: ContentType = ContentType.TECH_DOC,
    version: str | None = None,
    url_prefix: str | None = None,
    max_file_bytes: int = 1_000_000,
) -> IngestRequest:
    """A request for the paths, or for all of `base`."""
    return IngestRequest(
        paths=paths or (base,),
        naming=FileNaming(base, url_prefix),
        content_type=content_type,
        version=version,
        max_file_bytes=max_file_bytes,
    )


async def ingest(app: Application, asked: IngestRequest, watch: Watch | None = None) -> IngestReport:
    """Ingest into the default workspace."""
    return await app.files.run(DEFAULT_WORKSPACE, asked, CaptureLines(app.documents), watch or Watch())


async def stored_item(app: Application, item_id: str) -> Item | None:
    """An item with its passages."""
    async with app.store.snapshot() as snapshot:
        return await snapshot.item(DEFAULT_WORKSPACE, ItemId(item_id))


def capture_line(number: int, words: str, /, **more: object) -> dict[str, object]:
    """A capture of one passage, its id and source made from its number."""
    return {
        "item_id": f"n{number}",
        "title": f"Note {number}",
        "content_type": "tech-doc",
        "source_type": "upload",
        "source_filename": f"note-{number}",
        "version": "1",
        "passages": [{"text": words}],
        **more,
    }


def write_lines(path: Path, lines: Iterable[object]) -> Path:
    """A file with a JSON value a line; gzipped where its name says so."""
    data = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def codes(failures: Sequence[FileFailure]) -> list[tuple[str, int | None, str]]:
    """Name, line and code of each failure."""
    return [(failure.name, failure.line, failure.code) for failure in failures]
