"""Cursors that nobody issued: the key is the request itself, so anybody can sign one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core import cursors
from service.core.cursors import Position, decode_cursor, encode_cursor, request_fingerprint
from service.errors import InvalidCursor
from service.model import ItemId

KEY = request_fingerprint("w", "query", "sill", None)
POSITION = Position(8, 1.5, ItemId("a"), 3, 99, "lexical-1")


def signed(payload: bytes) -> str:
    """A cursor with a payload of one's own and the right tag."""
    return cursors.encode_raw(cursors._tag(payload, KEY) + payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"null",
        b"[1]",
        b"[1,2,3,4,5,6]",
        b'[1,"0x1p0","a",3,99]',
        b'[-1,"0x1p0","a",3,99,"lexical-1"]',
        b'[true,"0x1p0","a",3,99,"lexical-1"]',
        b'[1e300,"0x1p0","a",3,99,"lexical-1"]',
        b'[99999999999999999999,"0x1p0","a",3,99,"lexical-1"]',
        b'[1,"nan","a",3,99,"lexical-1"]',
        b'[1,"inf","a",3,99,"lexical-1"]',
        b'[1,"0x1p99999","a",3,99,"lexical-1"]',
        b'[1,"0x1p0",7,3,99,"lexical-1"]',
        b'[1,"0x1p0","a","3",99,"lexical-1"]',
        b'[1,"0x1p0","a",3,null,"lexical-1"]',
        b'[1,"0x1p0","a",3,99,["lexical-1"]]',
    ],
)
def test_a_signed_payload_of_another_shape_is_refused(payload: bytes) -> None:
    """U7: whatever a forger signs, it is a position or it is refused; it is never an error of ours."""
    with pytest.raises(InvalidCursor):
        decode_cursor(signed(payload), KEY)


@given(st.binary(max_size=80))
def test_any_signed_bytes_are_refused(payload: bytes) -> None:
    """U7: random bytes with a right tag are refused."""
    with pytest.raises(InvalidCursor):
        decode_cursor(signed(payload), KEY)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_any_signed_json_is_refused(value: object) -> None:
    """U7: random JSON with a right tag is refused."""
    with pytest.raises(InvalidCursor):
        decode_cursor(signed(json.dumps(value).encode()), KEY)


@given(st.text(max_size=60))
def test_any_text_is_refused(text: str) -> None:
    """U7: any text in place of a cursor is refused."""
    with pytest.raises(InvalidCursor):
        decode_cursor(text, KEY)


def test_a_cursor_spelt_another_way_is_refused() -> None:
    """U7: one position has one cursor: no padding, no other alphabet, no other request, no other workspace."""
    cursor = encode_cursor(POSITION, KEY)
    assert decode_cursor(cursor, KEY) == POSITION
    for other in (cursor + "=", cursor + "==", cursor + " ", " " + cursor, cursor + "\n", cursor.swapcase()):
        with pytest.raises(InvalidCursor):
            decode_cursor(other, KEY)
    for key in (
        request_fingerprint("w", "query", "sill", ""),
        request_fingerprint("v", "query", "sill", None),
    ):
        with pytest.raises(InvalidCursor):
            decode_cursor(cursor, key)
