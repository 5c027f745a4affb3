"""A stream as it was before it was packed, piece by piece, within a bound on what it may swell to."""

import zlib
from collections.abc import Iterator
from typing import Final, Protocol

from service.errors import TooLarge, UnreadableDocument

PIECE: Final = 64 * 1024  # bytes given out at once
MOST_EXPANSION: Final = (
    200  # bytes a packed byte may become: JSON lines pack to a tenth, a bomb to a thousandth
)
GRACE: Final = 16 * 1024 * 1024  # bytes given out before the ratio counts: a small file packs well
_GZIP: Final = 16 + zlib.MAX_WBITS


class Packing(Protocol):
    """How a stream is packed."""

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """What a chunk unpacks to. Raises UnreadableDocument for damage, TooLarge for a bomb."""
        ...

    def finish(self) -> None:
        """Raises UnreadableDocument when the stream ended too early."""
        ...


class Unpacked:
    """A stream that is not packed. Implements Packing."""

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """The chunk itself."""
        yield packed

    def finish(self) -> None:
        """Any end is a good one."""


class Gunzip:
    """A gzip stream of one or more members. Implements Packing."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._taken = 0
        self._given = 0
        self._is_inside = False  # a member has begun and not ended

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """What a chunk unpacks to. Raises UnreadableDocument for damage, TooLarge for a bomb."""
        self._taken += len(packed)
        has_more = False
        while packed or has_more:
            self._is_inside = True
            try:
                piece = self._member.decompress(packed, PIECE)
            except zlib.error as error:
                raise UnreadableDocument("the gzip stream is damaged") from error
            packed, has_more = self._member.unconsumed_tail, len(piece) == PIECE
            if self._member.eof:
                packed, has_more = (
                    self._member.unused_data.lstrip(b"\x00"),
                    False,
                )  # padding ends a tape block
                self._member, self._is_inside = zlib.decompressobj(_GZIP), False
            self._given += len(piece)
            if self._given > GRACE and self._given > MOST_EXPANSION * self._taken:
                raise TooLarge("the gzip stream unpacks to far more than it holds")
            yield piece

    def finish(self) -> None:
        """Raises UnreadableDocument when the stream ended inside a member."""
        if self._is_inside:
            raise UnreadableDocument("the gzip stream is cut off")
