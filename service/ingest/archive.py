"""Backup and restore: the whole of a database as lines, read in one snapshot, stored in one transaction."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from service.errors import NotFound
from service.ingest.archive_lines import (
    END,
    FORMAT,
    Header,
    Tally,
    check_end,
    check_header,
    decoded,
    encoded,
    encoded_header,
    encoded_rows,
)
from service.model import Workspace
from service.ports.archive import Archive, LineSink, LineSource, NumberedRecord, Rows, refused

BATCH_ROWS: Final = 1_000  # of one statement of a restore
BATCH_BYTES: Final = 4_000_000


@dataclass(frozen=True, slots=True)
class ArchiveSummary:
    """What an archive holds: rows by kind, and the SHA-256 of its lines between header and end."""

    header: Header
    counts: Mapping[str, int]
    sha256: str


class ArchiveWatch(Protocol):
    """Whoever wants to know how far it is."""

    def advanced(self, rows: int, fraction: float | None) -> None:
        """So many rows have passed, which is so much (0 to 1) of all; None when that is not known."""
        ...


class Archiving:
    """Writes and reads archives. Neither holds more than a batch in memory."""

    def __init__(self, archive: Archive, now: Callable[[], datetime]) -> None:
        self._archive = archive
        self._now = now

    async def export(
        self, sink: LineSink, workspace: Workspace | None, watch: ArchiveWatch
    ) -> ArchiveSummary:
        """Write everything, or one workspace.

        Raises NotFound for a workspace of which nothing is known, StoreUnavailable, and what the sink raises.
        """
        tally, done = Tally(), 0
        async with self._archive.reading(workspace) as snapshot:
            header = Header(FORMAT, snapshot.schema, snapshot.database_id, workspace, self._now().isoformat())
            total = await snapshot.count()
            if workspace is not None and total == 1:  # the counter alone
                raise NotFound("nothing was ever stored in this workspace")
            await asyncio.to_thread(sink.write, encoded_header(header))
            async for rows in snapshot.batches():
                await asyncio.to_thread(_write, sink, rows, tally)
                done += len(rows.rows)
                watch.advanced(done, done / total)
        await asyncio.to_thread(sink.write, encoded(END, tally.end()))
        return _summary(header, tally)

    async def restore(self, source: LineSource, watch: ArchiveWatch) -> ArchiveSummary:
        """Fill an empty database, or leave it empty.

        Raises:
            UnreadableDocument: a line is wrong, or the archive was cut off, altered or written by a newer version.
            Conflict: the database is not empty.
            StorageFull, StoreUnavailable: it cannot be stored now.
        """
        first = await asyncio.to_thread(source.read)
        if not first:
            raise refused(1, "is missing: it is empty")
        header = check_header(first[0], self._archive.schemas)
        reading = _Reading(self._archive.kinds)
        async with self._archive.restoring() as restoration:
            lines = first[1:]
            while True:
                for batch in await asyncio.to_thread(reading.batches, lines):
                    await restoration.store(batch.kind, batch.records)
                watch.advanced(reading.tally.counts.total(), source.fraction)
                lines = await asyncio.to_thread(source.read)
                if not lines:
                    break
            reading.check_ended()
        return _summary(header, reading.tally)


@dataclass(slots=True)
class _Batch:
    kind: str
    records: list[NumberedRecord] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True)
class _Reading:
    """How far an archive has been read; its header is line 1."""

    kinds: Sequence[str]
    tally: Tally = field(default_factory=Tally)
    line: int = 1
    place: int = 0  # in `kinds`
    ended: bool = False

    def batches(self, lines: Sequence[bytes]) -> list[_Batch]:
        """The rows among the next lines, one kind a batch. Raises UnreadableDocument."""
        found: list[_Batch] = []
        for line in lines:
            self.line += 1
            kind, record = self._record(line)
            if kind == END:
                check_end(record, self.tally)
                self.ended = True
                continue
            self._check_place(kind)
            self.tally.add(line, kind)
            if not found or found[-1].kind != kind or _is_full(found[-1]):
                found.append(_Batch(kind))
            found[-1].records.append(record)
            found[-1].size += len(line)
        return found

    def check_ended(self) -> None:
        """Raises UnreadableDocument for an archive without its end."""
        if not self.ended:
            raise refused(self.line, "is the last one, and it is not the end: the archive was cut off")

    def _record(self, line: bytes) -> tuple[str, NumberedRecord]:
        if self.ended:
            raise refused(self.line, "stands behind the end")
        return decoded(line, self.line)

    def _check_place(self, kind: str) -> None:
        if kind not in self.kinds:
            raise refused(self.line, f"is of the unknown kind {kind[:20]!r}")
        place = self.kinds.index(kind)
        if place < self.place:
            raise refused(self.line, f"is a {kind} where none may stand")
        self.place = place


def _is_full(batch: _Batch) -> bool:
    return len(batch.records) >= BATCH_ROWS or batch.size >= BATCH_BYTES


def _write(sink: LineSink, rows: Rows, tally: Tally) -> None:
    sink.write(encoded_rows(rows, tally))


def _summary(header: Header, tally: Tally) -> ArchiveSummary:
    return ArchiveSummary(header, dict(tally.counts), tally.digest.hexdigest())
