"""A stream of bytes cut into lines, in memory bounded by the longest line that is let through."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass

from service.errors import CitewellError, TooLarge


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is not blank, numbered from 1 in the whole stream; one that is too long has only an error."""

    number: int
    data: bytes
    error: CitewellError | None = None


class LineCutter:
    """Cuts chunks into lines. Blank lines are counted and left out; the rest of an over-long line is dropped."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._held = 0
        self._number = 1
        self._too_long = False

    @property
    def number(self) -> int:
        """The number of the line that the next byte belongs to."""
        return self._number

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """The lines that end in this chunk."""
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._hold(piece)
            yield from self._end()
        self._hold(rest)

    def finish(self) -> Iterator[Line]:
        """The last line, where the stream does not end with a line break."""
        yield from self._end()

    def _hold(self, piece: bytes) -> None:
        if self._held + len(piece) > self._longest:
            self._too_long = True
            self._pieces.clear()
            self._held = 0
        elif piece and not self._too_long:
            self._pieces.append(piece)
            self._held += len(piece)

    def _end(self) -> Iterator[Line]:
        data, number, too_long = b"".join(self._pieces), self._number, self._too_long
        if number == 1:
            data = data.removeprefix(codecs.BOM_UTF8)
        data = data.strip()
        self._pieces.clear()
        self._held, self._too_long = 0, False
        self._number += 1
        if too_long:
            yield Line(number, b"", TooLarge(f"the line has more than {self._longest} bytes"))
        elif data:
            yield Line(number, data)
