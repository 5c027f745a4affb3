"""Files that are one document each: hashed and, only where that is new, extracted on threads and stored."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from service.errors import CitewellError
from service.ingest.capture import Clock
from service.ingest.file_ledger import FileLedger, name_hash, reading_digest
from service.ingest.file_report import IngestRequest
from service.ingest.stated_metadata import document_capture
from service.model import Capture, CaptureResult, ItemId
from service.ports.documents import DocumentFormat, DocumentReader, FileDefaults, FileSource, FoundFile
from service.ports.store import IngestMark

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file and its name as a source."""

    file: FoundFile
    name: str


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A document's bytes, and the digest that says whether the same was read before."""

    name: str
    form: DocumentFormat
    data: bytes
    defaults: FileDefaults
    digest: str


class DocumentFiles:
    """Ingests documents, a group at a time."""

    def __init__(self, reader: DocumentReader, files: FileSource, clock: Clock) -> None:
        self._reader = reader
        self._files = files
        self._clock = clock

    async def ingest(self, group: Sequence[NamedFile], request: IngestRequest, ledger: FileLedger) -> None:
        """Store the documents that are new and refresh those that are not. Raises StoreUnavailable."""
        failures: dict[str, CitewellError] = {}
        names = [named.name for named in group]
        loading = await _on_threads([partial(self._load, named, request) for named in group])
        loaded = _good(names, loading, failures)
        marks = await ledger.marks([name_hash(entry.name) for entry in loaded])
        changed: list[_Loaded] = []
        fetched_again: list[ItemId] = []
        for entry in loaded:
            mark = marks.get(name_hash(entry.name))
            if mark is None or mark.digest != entry.digest or not mark.finished:
                changed.append(entry)
                continue
            ledger.report.unchanged_files += 1
            if mark.item_id is not None:
                fetched_again.append(mark.item_id)
        failures.update(await self._store(changed, request, ledger))
        await ledger.refresh(fetched_again, self._clock())
        for name in names:
            if name in failures:
                ledger.fail(name, None, failures[name])
        ledger.advanced(sum(named.file.size for named in group))

    def _load(self, named: NamedFile, request: IngestRequest) -> _Loaded:
        if named.file.form is None:
            raise ValueError("a file of captures is no document")
        data, state = self._files.load(named.file.path, request.max_file_bytes)
        source = request.naming.source(named.name)
        return _Loaded(
            name=named.name,
            form=named.file.form,
            data=data,
            defaults=FileDefaults(
                named.name, request.content_type, request.version or state.modified.isoformat()
            ),
            digest=reading_digest(
                state.digest, self._reader.rules, source.key, request.content_type.value, request.version
            ),
        )

    async def _store(
        self, changed: Sequence[_Loaded], request: IngestRequest, ledger: FileLedger
    ) -> dict[str, CitewellError]:
        """Extract and store; what failed, by name."""
        failures: dict[str, CitewellError] = {}
        names = [entry.name for entry in changed]
        reading = await _on_threads([partial(self._capture, entry, request) for entry in changed])
        captures = _good(names, reading, failures)
        outcomes = await ledger.store([capture for _, capture in captures])
        for (entry, capture), outcome in zip(captures, outcomes, strict=True):
            if isinstance(outcome, CitewellError):
                failures[entry.name] = outcome
            else:
                ledger.remember(_mark(entry, capture, outcome))
        return failures

    def _capture(self, entry: _Loaded, request: IngestRequest) -> tuple[_Loaded, Capture]:
        document = self._reader.read(entry.data, entry.form)
        return entry, document_capture(document, entry.defaults, request.naming.source(entry.name))


def _mark(entry: _Loaded, capture: Capture, result: CaptureResult) -> IngestMark:
    """A document that states when it was fetched names no item to refresh: it says so again next time."""
    item_id = result.item_id if capture.fetched_at is None else None
    return IngestMark(name_hash(entry.name), entry.digest, done=1, finished=True, item_id=item_id)


async def _on_threads(calls: Sequence[Callable[[], T]]) -> list[T | CitewellError]:
    """What each call returns, or the error it raised."""
    return await asyncio.gather(*(asyncio.to_thread(_outcome, call) for call in calls))


def _outcome(call: Callable[[], T]) -> T | CitewellError:
    try:
        return call()
    except CitewellError as error:
        return error


def _good(
    names: Sequence[str], outcomes: Iterable[T | CitewellError], failures: dict[str, CitewellError]
) -> list[T]:
    """The outcomes that are no errors; the errors are put down under their names."""
    good: list[T] = []
    for name, outcome in zip(names, outcomes, strict=True):
        if isinstance(outcome, CitewellError):
            failures[name] = outcome
        else:
            good.append(outcome)
    return good
