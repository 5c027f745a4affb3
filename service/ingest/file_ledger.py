"""What one ingest stores, what it has read of which file, and what it tells about it."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime

from service.core.staleness import is_stale
from service.errors import CitewellError
from service.ingest.capture import Capturing, Outcome
from service.ingest.file_report import FAILURES_KEPT, IngestReport, IngestWatch, failure
from service.model import Capture, ItemId, Workspace
from service.ports.store import IngestMark, Store


class FileLedger:
    """Stores captures in batches and remembers what has been read.

    What a file's capture became is known only when its batch is stored, so its mark is written in the next
    transaction. A crash in between costs one batch read again, which then is unchanged; a mark never claims
    what is not stored.
    """

    def __init__(self, store: Store, capturing: Capturing, workspace: Workspace, watch: IngestWatch) -> None:
        self.report = IngestReport()
        self._store = store
        self._capturing = capturing
        self._workspace = workspace
        self._watch = watch
        self._marks: dict[str, IngestMark] = {}

    async def marks(self, name_hashes: Sequence[str]) -> Mapping[str, IngestMark]:
        """What earlier ingests have read of files."""
        return await self._store.ingest_marks(self._workspace, name_hashes)

    def remember(self, mark: IngestMark) -> None:
        """Have a mark written with the next batch."""
        self._marks[mark.name_hash] = mark

    async def store(self, captures: Sequence[Capture]) -> list[Outcome]:
        """Store a batch and the marks so far, in one transaction. Raises StoreUnavailable."""
        marks = list(self._marks.values())
        if not captures and not marks:
            return []
        outcomes = await self._capturing.capture_batch(self._workspace, captures, marks)
        self._marks.clear()
        for outcome in outcomes:
            if not isinstance(outcome, CitewellError):
                self.report.count(outcome)
        return outcomes

    async def refresh(self, item_ids: Sequence[ItemId], at: datetime) -> None:
        """Set `fetched_at` of those items that are live. Raises StoreUnavailable."""
        if not item_ids:
            return
        async with self._store.transaction(self._workspace) as transaction:
            heads = await transaction.heads(item_ids)
            live = [head for head in heads.values() if not is_stale(head.retired_at, head.superseded_by)]
            await transaction.refresh({head.item_id: at for head in live})

    def fail(self, name: str, line: int | None, error: CitewellError) -> None:
        """Report what could not be stored."""
        failed = failure(name, line, error)
        self.report.failed += 1
        if len(self.report.failures) < FAILURES_KEPT:
            self.report.failures.append(failed)
        self._watch.failed(failed)

    def advanced(self, size: int) -> None:
        """Report bytes as dealt with."""
        self._watch.advanced(self.report, size)

    def should_stop(self) -> bool:
        """Whether to stop here; the report then says that it was interrupted."""
        self.report.interrupted = self.report.interrupted or self._watch.should_stop()
        return self.report.interrupted


def name_hash(name: str) -> str:
    """What a file is remembered under."""
    return hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()


def reading_digest(*parts: str | None) -> str:
    """Everything that decides what is read from a file: equal digests give equal captures."""
    return hashlib.sha256(repr(parts).encode(errors="surrogateescape")).hexdigest()
