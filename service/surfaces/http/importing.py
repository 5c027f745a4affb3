"""An import: lines of captures in, result lines out, in bounded memory, however many there are."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from service.bootstrap import Application
from service.errors import CitewellError, Unavailable
from service.ingest.capture import Outcome
from service.model import Capture, Workspace
from service.surfaces.captures import read_capture
from service.surfaces.http.lines import Line, LineCutter
from service.surfaces.http.unpacking import Packing
from service.surfaces.wire import capture_out, decode_capture

BATCH_LINES: Final = 1_000
BATCH_BYTES: Final = 1_000_000  # of lines decoded together, unless a single line is longer
BATCH_PASSAGES: Final = 1_000  # in one transaction, unless a single capture has more

Entry = tuple[int, Capture | CitewellError]
Result = tuple[int, Outcome]


class LineError(msgspec.Struct, kw_only=True):
    """Why a line was not stored."""

    code: str
    title: str
    detail: str


class StoredLine(msgspec.Struct, kw_only=True):
    """The result of a line that was stored, or stood already."""

    line: int
    item_id: str
    superseded: str | None
    unchanged: bool
    passages: int


class RefusedLine(msgspec.Struct, kw_only=True):
    """The result of a line that was not stored."""

    line: int
    error: LineError


@dataclass(frozen=True, slots=True)
class Importer:
    """Stores the lines of one stream and tells the result of each, in order."""

    application: Application
    workspace: Workspace

    async def run(
        self, chunks: AsyncIterator[bytes], packing: Packing, on_line: Callable[[], None]
    ) -> AsyncGenerator[bytes, None]:
        """Result lines. An empty chunk means that the sender pauses: what came is stored without waiting.

        `on_line` is called for every line that is not blank, when it has come to its end.
        Damage to the whole stream is reported as the error of the line where it was met, and ends the import.
        """
        batch = _Batch()
        async for line in _lines(chunks, packing, LineCutter(self.application.settings.max_line_bytes)):
            if batch.lines and (line is None or batch.is_full_before(line)):
                yield await self._store(batch.take())
            if line is not None:
                on_line()
                batch.add(line)
        if batch.lines:
            yield await self._store(batch.take())

    async def _store(self, lines: Sequence[Line]) -> bytes:
        """Decode and store some lines: a transaction for every BATCH_PASSAGES."""
        entries = await asyncio.to_thread(self._decode, lines)
        told: list[bytes] = []
        for part in _parts(entries):
            told += [_result_line(number, outcome) for number, outcome in await self._commit(part)]
        return b"".join(told)

    def _decode(self, lines: Sequence[Line]) -> list[Entry]:
        return [(line.number, line.error or self._capture(line.data)) for line in lines]

    def _capture(self, data: bytes) -> Capture | CitewellError:
        try:
            return read_capture(decode_capture(data), self.application.documents)
        except CitewellError as error:
            return error

    async def _commit(self, entries: Sequence[Entry]) -> list[Result]:
        captures = [entry for _, entry in entries if isinstance(entry, Capture)]
        outcomes: Iterator[Outcome] = iter(())
        if captures:
            try:
                outcomes = iter(await self.application.capturing.capture_batch(self.workspace, captures))
            except Unavailable as error:  # nothing of this batch was kept; the next one may fare better
                outcomes = iter([error] * len(captures))
        return [
            (number, next(outcomes) if isinstance(entry, Capture) else entry) for number, entry in entries
        ]


class _Batch:
    """Lines that are decoded together."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._bytes = 0

    def is_full_before(self, line: Line) -> bool:
        """Whether the batch is to be stored before this line joins."""
        return len(self.lines) >= BATCH_LINES or self._bytes + len(line.data) > BATCH_BYTES

    def add(self, line: Line) -> None:
        """Append a line."""
        self.lines.append(line)
        self._bytes += len(line.data)

    def take(self) -> list[Line]:
        """The lines, and an empty batch afterwards."""
        taken, self.lines, self._bytes = self.lines, [], 0
        return taken


async def _lines(
    chunks: AsyncIterator[bytes], packing: Packing, cutter: LineCutter
) -> AsyncGenerator[Line | None, None]:
    """The lines as they end; None where the sender pauses."""
    try:
        async for chunk in chunks:
            for piece in packing.feed(chunk):
                for line in cutter.feed(piece):
                    yield line
            if not chunk:
                yield None
        packing.finish()
    except CitewellError as error:
        yield Line(cutter.number, b"", error)
    else:
        for line in cutter.finish():
            yield line


def _parts(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """The entries in order, cut so that no part has more than BATCH_PASSAGES unless in one capture."""
    part: list[Entry] = []
    passages = 0
    for number, entry in entries:
        size = len(entry.passages) if isinstance(entry, Capture) else 0
        if part and passages + size > BATCH_PASSAGES:
            yield part
            part, passages = [], 0
        part.append((number, entry))
        passages += size
    if part:
        yield part


def _result_line(number: int, outcome: Outcome) -> bytes:
    if isinstance(outcome, CitewellError):
        why = LineError(code=outcome.code, title=outcome.title, detail=outcome.detail)
        return msgspec.json.encode(RefusedLine(line=number, error=why)) + b"\n"
    stored = msgspec.structs.asdict(capture_out(outcome))
    return msgspec.json.encode(StoredLine(line=number, **stored)) + b"\n"
