"""NDJSON lines from a file or stream, gzipped or not: bounded memory, one fault costs one line."""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import UnsupportedOperation
from pathlib import Path
from typing import BinaryIO

from service.adapters.extract.document import DEFAULT_LIMITS, KIB, ExtractLimits
from service.errors import InvalidText, TooLarge, UnreadableDocument

_CHUNK_BYTES = 64 * KIB
_GZIP_SIGNATURE = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class NdjsonLine:
    """One line, numbered from 1, without its end. With an `error`, `data` is empty."""

    number: int
    data: bytes
    error: InvalidText | TooLarge | None = None


def read_ndjson_lines(
    source: Path | BinaryIO, limits: ExtractLimits = DEFAULT_LIMITS
) -> Iterator[NdjsonLine]:
    """Every line that is not blank, valid UTF-8 or with its error; gzip is recognised and unpacked.

    At most one line and a few chunks are in memory, whatever comes. A stream is read and not closed.

    Raises:
        TooLarge: the gzip gives more bytes, or more for its size, than `limits` allow.
        UnreadableDocument: the gzip is damaged or ends early, after every line before that was given; or
            the file cannot be opened or read.
    """
    if not isinstance(source, Path):
        yield from _lines(_unpacked(_Source(source), limits), limits.line_bytes)
        return
    try:
        with source.open("rb") as stream:
            must_unpack = source.suffix.lower() == ".gz"
            yield from _lines(_unpacked(_Source(stream), limits, must_unpack=must_unpack), limits.line_bytes)
    except OSError as error:
        raise UnreadableDocument(f"{source.name!r} cannot be read.") from error


class _Source:
    """A stream whose first bytes have been looked at, and whose bytes are counted."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.bytes_read = 0
        self.head = b""
        while len(self.head) < len(_GZIP_SIGNATURE) and (more := stream.read(1)):
            self.head += more

    def read(self, size: int = _CHUNK_BYTES, /) -> bytes:
        """Up to `size` bytes; none at the end."""
        data, self.head = (
            (self.head[:size], self.head[size:]) if self.head else (self._stream.read(size), b"")
        )
        self.bytes_read += len(data)
        return data

    def seek(self, position: int, /) -> object:
        """Never: lines are read once, forwards. The gzip module's type asks for it."""
        raise UnsupportedOperation


def _unpacked(source: _Source, limits: ExtractLimits, *, must_unpack: bool = False) -> Iterator[bytes]:
    if must_unpack or source.head == _GZIP_SIGNATURE:
        yield from _gunzipped(source, limits)
        return
    while chunk := source.read():
        yield chunk


def _gunzipped(source: _Source, limits: ExtractLimits) -> Iterator[bytes]:
    expanded = 0
    try:
        with gzip.GzipFile(fileobj=source) as unpacked:
            # One read of the stream at a time: what came before a damaged place is not lost with it.
            while chunk := unpacked.read1(_CHUNK_BYTES):
                expanded += len(chunk)
                _check_expansion(expanded, source.bytes_read, limits)
                yield chunk
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UnreadableDocument("The gzip is damaged or ends early.") from error


def _check_expansion(expanded: int, packed: int, limits: ExtractLimits) -> None:
    if expanded > limits.expanded_bytes:
        raise TooLarge(f"The gzip holds more than {limits.expanded_bytes} bytes.")
    if expanded > limits.ratio_grace_bytes and expanded > limits.expansion_ratio * packed:
        raise TooLarge(f"The gzip expands more than {limits.expansion_ratio} times.")


def _lines(chunks: Iterator[bytes], longest: int) -> Iterator[NdjsonLine]:
    number = 1
    pending = bytearray()
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            _append(pending, piece, longest)
            yield from _line(number, pending, longest)
            number += 1
            pending.clear()
        _append(pending, rest, longest)
    yield from _line(number, pending, longest)


def _append(pending: bytearray, piece: bytes, longest: int) -> None:
    """Add as much as shows that the line is too long."""
    pending += piece[: longest + 1 - len(pending)]


def _line(number: int, pending: bytearray, longest: int) -> Iterator[NdjsonLine]:
    """The line, or nothing for a blank one."""
    if len(pending) > longest:
        yield NdjsonLine(number, b"", TooLarge(f"Line {number} has more than {longest} bytes."))
        return
    data = bytes(pending).removeprefix(_UTF8_MARK if number == 1 else b"").strip()
    if not data:
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        yield NdjsonLine(number, b"", InvalidText(f"Line {number} is not valid UTF-8 at byte {error.start}."))
    else:
        yield NdjsonLine(number, data)
