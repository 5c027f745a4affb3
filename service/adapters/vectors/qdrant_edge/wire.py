"""Frames between the service and a shard's process: a head, a msgpack message, raw float32 or ids.

A head is `<u8 call> <f8 deadline> <u4 message length> <u4 body length>`, little-endian; an answer carries
the call of its request. Bodies hold vectors as (rows, dimension) float32 and point ids as 16 bytes each,
so neither is ever encoded element by element.
"""

import struct
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

import msgspec

HEAD = struct.Struct("<QdII")
UNASKED = 0  # the call of a message nobody asked for
MAX_MESSAGE = 64 << 20
MAX_BODY = 64 << 20

PointRow = tuple[bytes, str, str, str, int, int]  # id, workspace, content type, item id, seq, window
HitRow = tuple[str, int, int, float]  # item id, seq, window, score


class Failure(StrEnum):
    """Why a shard could not do what it was asked."""

    ENGINE = "engine"
    EXPIRED = "expired"
    FULL = "full"
    DAMAGED = "damaged"


class Search(msgspec.Struct, tag="search", array_like=True, frozen=True):
    """Body: one vector."""

    workspace: str
    content_type: str | None
    limit: int


class Upsert(msgspec.Struct, tag="upsert", array_like=True, frozen=True):
    """Body: a row of vectors for each point."""

    points: list[PointRow]


class Delete(msgspec.Struct, tag="delete", array_like=True, frozen=True):
    """Body: ids."""


class Flush(msgspec.Struct, tag="flush", array_like=True, frozen=True):
    """Write everything to the shard's own files."""


class Page(msgspec.Struct, tag="page", array_like=True, frozen=True):
    """Ids from `start` on, ascending."""

    workspace: str | None
    start: bytes | None
    limit: int


class Count(msgspec.Struct, tag="count", array_like=True, frozen=True):
    """How many points a workspace, or everything, has."""

    workspace: str | None


class Export(msgspec.Struct, tag="export", array_like=True, frozen=True):
    """Whole points. Body: ids."""


class Ready(msgspec.Struct, tag="ready", array_like=True, frozen=True):
    """The shard is open; sent once, unasked, before anything else."""

    points: int
    outside_graph: int


class Hits(msgspec.Struct, tag="hits", array_like=True, frozen=True):
    """Best first."""

    hits: list[HitRow]


class Done(msgspec.Struct, tag="done", array_like=True, frozen=True):
    """A write is durable."""

    points: int
    outside_graph: int


class Ids(msgspec.Struct, tag="ids", array_like=True, frozen=True):
    """Body: ids."""


class Counted(msgspec.Struct, tag="counted", array_like=True, frozen=True):
    """A number of points."""

    points: int


class Exported(msgspec.Struct, tag="exported", array_like=True, frozen=True):
    """The points that exist. Body: a row of vectors for each."""

    points: list[PointRow]


class Failed(msgspec.Struct, tag="failed", array_like=True, frozen=True):
    """The call failed; `detail` is the engine's own words, for the log only."""

    failure: Failure
    detail: str


Request = Search | Upsert | Delete | Flush | Page | Count | Export
Answer = Hits | Done | Ids | Counted | Exported | Failed
Message = Request | Ready | Answer

_encoder = msgspec.msgpack.Encoder()
REQUESTS: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
ANSWERS: msgspec.msgpack.Decoder[Ready | Answer] = msgspec.msgpack.Decoder(Ready | Answer)


class BadFrame(Exception):
    """The other side does not speak this protocol; the connection is of no further use."""


class Head(NamedTuple):
    """What comes before a message and its body. `deadline` is 0 in answers."""

    call: int
    deadline: float
    message: int
    body: int

    @classmethod
    def read(cls, prefix: bytes | bytearray) -> "Head":
        """Raises BadFrame when a length is out of bounds."""
        head = cls(*HEAD.unpack_from(prefix))
        if head.message > MAX_MESSAGE or head.body > MAX_BODY:
            raise BadFrame("a frame is too long")
        return head


def frame(call: int, deadline: float, message: Message, body: bytes = b"") -> bytes:
    """A whole frame."""
    encoded = _encoder.encode(message)
    return b"".join((HEAD.pack(call, deadline, len(encoded), len(body)), encoded, body))


def pack_ids(ids: Iterable[UUID]) -> bytes:
    """16 bytes for each id."""
    return b"".join(identity.bytes for identity in ids)


def unpack_ids(body: bytes) -> list[UUID]:
    """Raises BadFrame when the length is not a multiple of 16."""
    if len(body) % 16:
        raise BadFrame("a list of ids is cut off")
    return [UUID(bytes=body[start : start + 16]) for start in range(0, len(body), 16)]
