"""Ingest files: find them, store what is new in them, and say what could not be stored."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from service.errors import CitewellError, Conflict, NotFound, UnreadableDocument
from service.ingest.capture import Capturing, Clock
from service.ingest.document_files import DocumentFiles, NamedFile
from service.ingest.file_ledger import FileLedger
from service.ingest.file_report import IngestReport, IngestRequest, IngestWatch
from service.ingest.line_files import LineFiles
from service.ingest.trailing_index import TrailingIndex
from service.model import Workspace
from service.ports.documents import DocumentReader, FileSource, FoundFile, LineDecoder, PassedOver
from service.ports.lexical import LexicalIndex
from service.ports.store import Store

GROUP_FILES = 100  # documents that are read, looked up and stored together
GROUP_BYTES = 16_000_000  # of them in memory at once, where no single one is larger


@dataclass(frozen=True, slots=True)
class IngestParts:
    """What an ingest works with."""

    store: Store
    lexical: LexicalIndex
    reader: DocumentReader
    files: FileSource
    clock: Clock


class FileIngest:
    """Ingests files and folders; started again after anything, it goes on where it was."""

    def __init__(self, parts: IngestParts) -> None:
        self._parts = parts
        self._documents = DocumentFiles(parts.reader, parts.files, parts.clock)
        self._lines = LineFiles(parts.reader, parts.files)

    async def run(
        self, workspace: Workspace, request: IngestRequest, decode: LineDecoder, watch: IngestWatch
    ) -> IngestReport:
        """Store what is new in the files. What cannot be stored is reported and stops nothing.

        What the report counts is durable, and searchable in this process. Raises StoreUnavailable.
        """
        index = TrailingIndex(self._parts.lexical)
        capturing = Capturing(self._parts.store, index, self._parts.clock)
        ledger = FileLedger(self._parts.store, capturing, workspace, watch)
        try:
            await self._run(request, decode, ledger, watch)
            await index.settle(workspace)
        finally:
            await index.close()
        return ledger.report

    async def _run(
        self, request: IngestRequest, decode: LineDecoder, ledger: FileLedger, watch: IngestWatch
    ) -> None:
        found = await asyncio.to_thread(lambda: list(self._parts.files.find(request.paths)))
        files = _named(found, request, ledger)
        watch.begin(len(files), sum(named.file.size for named in files))
        for group in _groups(files):
            if ledger.should_stop():
                break
            if group[0].file.form is None:
                await self._lines.ingest(group[0], request, decode, ledger)
            else:
                await self._documents.ingest(group, request, ledger)
            ledger.report.files += 0 if ledger.report.interrupted else len(group)
        await ledger.store([])


def _named(
    found: Sequence[FoundFile | PassedOver], request: IngestRequest, ledger: FileLedger
) -> list[NamedFile]:
    """The files with their names, each once; where two would have the same, the second has failed."""
    places: dict[str, Path] = {}
    named: list[NamedFile] = []
    for file in found:
        if isinstance(file, PassedOver):
            if file.is_fault:
                ledger.fail(str(file.path), None, _fault(file))
            else:
                ledger.report.skipped += 1
            continue
        place = request.naming.place(file.path)
        name = request.naming.name(place)
        if name not in places:
            places[name] = place
            named.append(NamedFile(file, name))
        elif places[name] != place:
            ledger.fail(str(file.path), None, Conflict(f"another file of this run is the source {name}"))
    return named


def _fault(passed: PassedOver) -> CitewellError:
    if passed.reason == "missing":
        return NotFound("there is no such file or folder")
    return UnreadableDocument(f"it cannot be read as a document: {passed.reason}")


def _groups(files: Sequence[NamedFile]) -> Iterator[list[NamedFile]]:
    """The files in order: documents together within bounds, each file of captures by itself."""
    group: list[NamedFile] = []
    size = 0
    for named in files:
        is_lines = named.file.form is None
        if group and (is_lines or len(group) >= GROUP_FILES or size + named.file.size > GROUP_BYTES):
            yield group
            group, size = [], 0
        if is_lines:
            yield [named]
            continue
        group.append(named)
        size += named.file.size
    if group:
        yield group
