"""Where archives are written to and read from: files, gzipped by their name, and the standard streams."""

import errno
import gzip
import io
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from service.errors import InvalidInput, StorageFull
from service.ports.archive import LineSink, LineSource, refused

STANDARD: Final = Path("-")
READ_BYTES: Final = 1_000_000  # lines taken at a time, by their bytes
LONGEST_LINE: Final = 64_000_000  # bytes; more is no line of an archive
FAST: Final = 6  # gzip's own middle way


@contextmanager
def writing(path: Path) -> Iterator[LineSink]:
    """A sink that becomes the file `path` on a clean exit, durable and whole; before that it is not seen.

    Raises StorageFull, InvalidInput.
    """
    if path == STANDARD:
        with _readers_end():
            yield _Stream(sys.stdout.buffer)
        return
    if path.exists() and not path.is_file():  # a pipe or a device: nothing may take its place
        with _readers_end(), _as_ours(path), path.open("wb") as stream:
            yield _Stream(stream)
        return
    with _as_ours(path):
        number, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    part = Path(name)
    try:
        with _as_ours(path), ExitStack() as stack:
            file = stack.enter_context(open(number, "wb"))  # noqa: PTH123 - the descriptor that mkstemp gave
            yield _Checked(_packed(file, path, stack), path)
            stack.pop_all().close()
        with _as_ours(path):
            _put_in_place(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def reading(path: Path) -> Iterator[LineSource]:
    """The lines of a file or of standard input. Raises InvalidInput when it cannot be opened."""
    if path == STANDARD:
        yield ArchiveLines(sys.stdin.buffer, None)
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise InvalidInput(f"{path.name!r} cannot be read: {error.strerror}", field="file") from error
    with file:
        size = os.fstat(file.fileno()).st_size
        stream = gzip.GzipFile(fileobj=file) if _is_packed(path) else file
        yield ArchiveLines(io.BufferedReader(stream), (file, size))


class ArchiveLines:
    """Lines in bounded portions. Implements LineSource."""

    def __init__(self, stream: BinaryIO, measured: tuple[BinaryIO, int] | None) -> None:
        self._stream = stream
        self._measured = measured
        self._line = 0

    @property
    def fraction(self) -> float | None:
        """How much of the file was read; of a gzip, how much of its packed bytes."""
        if self._measured is None:
            return None
        file, size = self._measured
        return min(1.0, file.tell() / max(1, size))

    def read(self) -> Sequence[bytes]:
        """The next lines. Raises UnreadableDocument for a damaged gzip and an endless line."""
        lines: list[bytes] = []
        taken = 0
        try:
            while taken < READ_BYTES and (line := self._stream.readline(LONGEST_LINE)):
                self._line += 1
                if len(line) == LONGEST_LINE:
                    raise refused(self._line, f"has more than {LONGEST_LINE} bytes")
                lines.append(line)
                taken += len(line)
        except (EOFError, zlib.error, OSError) as error:  # BadGzipFile is an OSError
            raise refused(self._line + 1, "cannot be read: the file is damaged or was cut off") from error
        return lines


class _ReaderWentAway(Exception):
    """Nobody reads any more. No OSError, since a database in between would take that for one of its own."""


class _Stream:
    """Standard output or a pipe."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, data: bytes, /) -> object:
        """Write at once, so that what cannot be written is known now."""
        try:
            self._stream.write(data)
            return self._stream.flush()
        except BrokenPipeError as error:
            raise _ReaderWentAway from error


@contextmanager
def _readers_end() -> Iterator[None]:
    """Raises BrokenPipeError when the reader went away, which ends the command as it ends every other."""
    try:
        yield
    except _ReaderWentAway as error:
        raise BrokenPipeError from error


class _Checked:
    """A file whose errors are ours."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream = stream
        self._path = path

    def write(self, data: bytes, /) -> object:
        """Raises StorageFull, InvalidInput."""
        with _as_ours(self._path):
            return self._stream.write(data)


def _packed(file: BinaryIO, path: Path, stack: ExitStack) -> BinaryIO:
    """The file itself, or a gzip in it without time and name: the same lines give the same bytes."""
    if not _is_packed(path):
        return file
    packer = gzip.GzipFile(filename="", mode="wb", compresslevel=FAST, fileobj=file, mtime=0)
    return stack.enter_context(packer)  # type: ignore[return-value] # it writes, and that is all that is asked


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _put_in_place(part: Path, path: Path) -> None:
    """Make the bytes durable before the name, so that no crash leaves the name without them."""
    _make_durable(part)
    part.replace(path)
    _make_durable(path.parent)


def _make_durable(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _as_ours(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFull("the disk of the archive is full; no archive was written") from error
        raise InvalidInput(f"{path.name!r} cannot be written: {error.strerror}", field="file") from error
