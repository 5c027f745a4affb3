"""Opaque cursors: a position in a ranking, bound to the request that it belongs to.

The tag is keyed by the request's fingerprint, so that a cursor of another request, another workspace or other
ranking settings fails the same check as one that was altered. It is no secret: a forged cursor shows nothing
that the same request without a cursor does not.
"""

import base64
import binascii
import hashlib
import hmac
import json
import math
from dataclasses import dataclass

from service.errors import InvalidCursor
from service.model import ItemId

_TAG = 12  # bytes
_MAX_CURSOR = 2_048  # characters
_MAX_NUMBER = 2**53


@dataclass(frozen=True, slots=True)
class Position:
    """The last passage of a page: its rank, its place in the total order, and what it was ranked in.

    `ranking` names the ranking and `corpus_seq` the corpus; a walk whose next page finds another says so.
    """

    rank: int
    score: float
    item_id: ItemId
    seq: int
    corpus_seq: int
    ranking: str


def request_fingerprint(*parts: str | None) -> bytes:
    """A hash of everything that decides a ranking; None and the empty string differ."""
    return hashlib.sha256(json.dumps(parts).encode()).digest()


def encode_cursor(position: Position, fingerprint: bytes) -> str:
    """The cursor for the page that follows `position`."""
    payload = json.dumps(
        [
            position.rank,
            position.score.hex(),
            position.item_id,
            position.seq,
            position.corpus_seq,
            position.ranking,
        ],
        separators=(",", ":"),
    ).encode()
    return base64.urlsafe_b64encode(_tag(payload, fingerprint) + payload).decode().rstrip("=")


def decode_cursor(cursor: str, fingerprint: bytes) -> Position:
    """The position a cursor holds. Raises InvalidCursor unless it was made for this fingerprint, unaltered."""
    refused = InvalidCursor(
        "the cursor was not issued for this request; start again without it", field="cursor"
    )
    if len(cursor) > _MAX_CURSOR:
        raise refused
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error) as error:
        raise refused from error
    tag, payload = raw[:_TAG], raw[_TAG:]
    if not hmac.compare_digest(tag, _tag(payload, fingerprint)):
        raise refused
    if encode_raw(raw) != cursor:  # the same bytes spelt another way
        raise refused
    try:
        return _position(json.loads(payload))
    except (ValueError, TypeError, AttributeError, OverflowError) as error:  # forged: the key is no secret
        raise refused from error


def _position(payload: object) -> Position:
    """Raises ValueError or TypeError for anything that `encode_cursor` does not write."""
    if not isinstance(payload, list):
        raise TypeError("a position is a list")
    rank, score, item_id, seq, corpus_seq, ranking = payload
    position = Position(rank, float.fromhex(score), ItemId(item_id), seq, corpus_seq, ranking)
    numbers, words = (position.rank, position.seq, position.corpus_seq), (position.item_id, position.ranking)
    if not all(type(number) is int and 0 <= number <= _MAX_NUMBER for number in numbers):
        raise ValueError("a position counts from 0")
    if not (math.isfinite(position.score) and all(isinstance(word, str) for word in words)):
        raise ValueError("a position has a finite score and names")
    return position


def encode_raw(raw: bytes) -> str:
    """URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _tag(payload: bytes, fingerprint: bytes) -> bytes:
    return hmac.new(fingerprint, payload, hashlib.sha256).digest()[:_TAG]
