"""Files of captures, one a line: streamed, stored in batches, and taken up where an earlier run stopped."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from service.errors import CitewellError
from service.ingest.document_files import NamedFile
from service.ingest.file_ledger import FileLedger, name_hash, reading_digest
from service.ingest.file_report import IngestRequest
from service.model import Capture
from service.ports.documents import DocumentReader, FileDefaults, FileLine, FileSource, FileState, LineDecoder
from service.ports.store import IngestMark

BATCH_LINES = 1_000  # stored in one transaction
BATCH_PASSAGES = 2_500
BATCH_BYTES = 8_000_000

Failures = list[tuple[int | None, CitewellError]]  # by line number; None is the file itself


@dataclass(slots=True)
class _Batch:
    """Decoded lines, and what is wrong with the others. `last` is the number of its last line."""

    captures: list[tuple[int, Capture]] = field(default_factory=list)
    failures: Failures = field(default_factory=list)
    last: int = 0
    passages: int = 0
    size: int = 0
    ends_file: bool = False

    @property
    def is_full(self) -> bool:
        """Whether it is time to store."""
        lines = len(self.captures) + len(self.failures)
        return lines >= BATCH_LINES or self.passages >= BATCH_PASSAGES or self.size >= BATCH_BYTES

    def pass_over(self, line: FileLine) -> None:
        """Count a line as read."""
        self.last = line.number
        self.size += len(line.data) + 1

    def add(self, line: FileLine, decode: Callable[[bytes], Capture]) -> None:
        """Decode a line."""
        self.pass_over(line)
        try:
            if line.error is not None:
                raise line.error
            capture = decode(line.data)
        except CitewellError as error:
            self.failures.append((line.number, error))
            return
        self.captures.append((line.number, capture))
        self.passages += len(capture.passages)


@dataclass(slots=True)
class _Reading:
    """How far a file has been read. `whole` counts its leading lines up to the first that failed.

    Only those are skipped by the next run, so that a failure is reported until it is mended.
    """

    name: str
    digest: str
    defaults: FileDefaults
    whole: int = 0
    has_failed: bool = False

    def passed(self, last: int, failures: Failures) -> None:
        """Take a stored batch into account."""
        if not self.has_failed:
            first = min((number for number, _ in failures if number is not None), default=last + 1)
            self.whole = max(self.whole, first - 1)
        self.has_failed = self.has_failed or bool(failures)

    def mark(self, *, ended: bool) -> IngestMark:
        """What the next run is to know."""
        return IngestMark(name_hash(self.name), self.digest, self.whole, ended and not self.has_failed)


class LineFiles:
    """Ingests files of captures, one after another."""

    def __init__(self, reader: DocumentReader, files: FileSource) -> None:
        self._reader = reader
        self._files = files

    async def ingest(
        self, named: NamedFile, request: IngestRequest, decode: LineDecoder, ledger: FileLedger
    ) -> None:
        """Store the lines that are not stored yet. Raises StoreUnavailable."""
        try:
            state = await asyncio.to_thread(self._files.state, named.file.path)
        except CitewellError as error:
            ledger.fail(named.name, None, error)
            ledger.advanced(named.file.size)
            return
        reading = await self._begin(named.name, state, request, ledger)
        if reading is None:
            ledger.report.unchanged_files += 1
            ledger.advanced(named.file.size)
            return
        with closing(self._files.lines(named.file.path)) as lines:
            await _store_lines(lines, partial(decode, defaults=reading.defaults), reading, ledger)

    async def _begin(
        self, name: str, state: FileState, request: IngestRequest, ledger: FileLedger
    ) -> _Reading | None:
        """Where to begin; None for a file that was read to its end and has not changed."""
        digest = reading_digest(
            state.digest, self._reader.rules, name, request.content_type.value, request.version
        )
        mark = (await ledger.marks([name_hash(name)])).get(name_hash(name))
        known = mark if mark is not None and mark.digest == digest else None
        if known is not None and known.finished:
            return None
        version = request.version or state.modified.isoformat()
        defaults = FileDefaults(name, request.content_type, version)
        return _Reading(name, digest, defaults, whole=0 if known is None else known.done)


async def _store_lines(
    lines: Iterator[FileLine], decode: Callable[[bytes], Capture], reading: _Reading, ledger: FileLedger
) -> None:
    done = reading.whole
    while not ledger.should_stop():
        batch = await asyncio.to_thread(_next_batch, lines, decode, done)
        outcomes = await ledger.store([capture for _, capture in batch.captures])
        refused: Failures = [
            (number, outcome)
            for (number, _), outcome in zip(batch.captures, outcomes, strict=True)
            if isinstance(outcome, CitewellError)
        ]
        failures = _in_order([*batch.failures, *refused])
        for number, error in failures:
            ledger.fail(reading.name, number, error)
        reading.passed(batch.last, failures)
        ledger.remember(reading.mark(ended=batch.ends_file))
        ledger.advanced(batch.size)
        if batch.ends_file:
            return


def _next_batch(lines: Iterator[FileLine], decode: Callable[[bytes], Capture], done: int) -> _Batch:
    """The next lines; those up to the line `done` are stored already."""
    batch = _Batch()
    try:
        for line in lines:
            if line.number <= done:
                batch.pass_over(line)
            else:
                batch.add(line, decode)
            if batch.is_full:
                return batch
    except CitewellError as error:  # the file is damaged from here on
        batch.failures.append((None, error))
    batch.ends_file = True
    return batch


def _in_order(failures: Sequence[tuple[int | None, CitewellError]]) -> Failures:
    """By line; the file's own failure last."""
    return sorted(failures, key=lambda failed: (failed[0] is None, failed[0] or 0))
