"""NDJSON lines from files and streams."""

import gzip
import tracemalloc
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.adapters.extract import ExtractLimits, NdjsonLine, read_ndjson_lines
from service.adapters.extract.document import MIB
from service.errors import InvalidText, TooLarge, UnreadableDocument

ONE_LINE = st.binary(max_size=40).filter(lambda line: b"\n" not in line)


def read(data: bytes, limits: ExtractLimits | None = None) -> list[NdjsonLine]:
    """All lines of a stream."""
    return list(read_ndjson_lines(BytesIO(data), limits or ExtractLimits()))


def test_lines_are_numbered_from_one() -> None:
    """Lines keep their numbers; blank ones, line ends and a byte-order mark are not given."""
    lines = read(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"b": "\xc3\xa9"}\n{"c": 3}')
    assert [(line.number, line.data, line.error) for line in lines] == [
        (1, b'{"a": 1}', None),
        (4, '{"b": "é"}'.encode(), None),
        (5, b'{"c": 3}', None),
    ]
    assert read(b"") == []


def test_invalid_utf8_costs_one_line() -> None:
    """InvalidText for the line that is not UTF-8; its neighbours are given."""
    lines = read(b"one\nt\xffo\n\xed\xa0\x80\nfour\n")
    assert [(line.number, line.data) for line in lines] == [(1, b"one"), (2, b""), (3, b""), (4, b"four")]
    assert [type(line.error) for line in lines] == [type(None), InvalidText, InvalidText, type(None)]
    assert "Line 2" in str(lines[1].error)


def test_an_over_long_line_costs_one_line_and_no_memory() -> None:
    """TooLarge for the line over its bound, without holding it; the rest is read."""
    data = b"one\n" + b"x" * 20 * MIB + b"\nthree\n" + b"y" * 20 * MIB
    stream = BytesIO(data)
    tracemalloc.start()
    try:
        lines = list(read_ndjson_lines(stream, ExtractLimits(line_bytes=1_000)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [(line.number, type(line.error)) for line in lines] == [
        (1, type(None)),
        (2, TooLarge),
        (3, type(None)),
        (4, TooLarge),
    ]
    assert peak < MIB


@pytest.mark.parametrize(("length", "fits"), [(9, True), (10, True), (11, False)])
def test_the_bound_of_a_line_is_exact(length: int, fits: bool) -> None:  # noqa: FBT001 - a test's parameter
    """A line of exactly `line_bytes` is given."""
    (line,) = read(b"x" * length + b"\n", ExtractLimits(line_bytes=10))
    assert (line.error is None) is fits


@given(st.lists(ONE_LINE, max_size=20), st.booleans())
def test_every_line_is_given_or_has_its_error(lines: list[bytes], zipped: bool) -> None:  # noqa: FBT001
    """C21: whatever the bytes, each line that is not blank comes back, gzipped or not."""
    data = b"first\n" + b"\n".join(lines)
    found = read(gzip.compress(data) if zipped else data)
    expected = [(number, line.strip()) for number, line in enumerate([b"first", *lines], 1) if line.strip()]
    assert [line.number for line in found] == [number for number, _ in expected]
    for line, (_, written) in zip(found, expected, strict=True):
        assert line.data == written if line.error is None else isinstance(line.error, InvalidText)
    assert all(one.number < other.number for one, other in pairwise(found))


def test_gzip_is_recognised(tmp_path: Path) -> None:
    """A gzip is unpacked by its first bytes, from a stream or a file of any name, several members too."""
    data = gzip.compress(b"one\ntw") + gzip.compress(b"o\nthree\n")
    path = tmp_path / "a.ndjson"
    path.write_bytes(data)
    for source in (BytesIO(data), path):
        assert [line.data for line in read_ndjson_lines(source)] == [b"one", b"two", b"three"]


@pytest.mark.parametrize("cut", [1, 8, 9, 500])
def test_a_truncated_gzip_gives_its_good_lines_first(cut: int) -> None:
    """UnreadableDocument comes after every whole line that stands before the cut."""
    numbers = [b"%d %d" % (number, number * 7919 % 10_007) for number in range(5_000)]
    stream = BytesIO(gzip.compress(b"\n".join(numbers))[:-cut])
    good = _good_lines(stream)
    assert good == numbers[: len(good)]
    assert len(good) > 4_000


def test_a_damaged_gzip_is_unreadable() -> None:
    """A wrong checksum and noise after the signature are errors, not fewer lines in silence."""
    packed = bytearray(gzip.compress(b"one\ntwo\n"))
    packed[-6] ^= 1
    for data in (bytes(packed), b"\x1f\x8b\x08" + b"noise" * 10, b"\x1f\x8b"):
        with pytest.raises(UnreadableDocument, match="gzip"):
            read(data)


def test_a_file_that_only_calls_itself_gzip_is_unreadable(tmp_path: Path) -> None:
    """A name in .gz promises a gzip."""
    (tmp_path / "a.jsonl.gz").write_bytes(b'{"a": 1}\n')
    with pytest.raises(UnreadableDocument, match="gzip"):
        list(read_ndjson_lines(tmp_path / "a.jsonl.gz"))


@pytest.mark.parametrize("unit", [b"\0" * 64, b"x" * 999 + b"\n"], ids=["one line", "many lines"])
def test_a_zip_bomb_is_refused_in_bounded_memory(unit: bytes) -> None:
    """C21: a gzip that gives a thousand times its size is TooLarge long before it is unpacked."""
    bomb = gzip.compress(unit * (20 * MIB // len(unit)))
    lines = read_ndjson_lines(BytesIO(bomb), ExtractLimits(ratio_grace_bytes=MIB // 4, line_bytes=MIB))
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match="expands"):
            for _ in lines:
                pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB


def test_the_expanded_size_is_bounded() -> None:
    """TooLarge: more bytes in all than allowed, at any ratio."""
    data = gzip.compress(b"line\n" * 1_000)
    with pytest.raises(TooLarge, match="more than 4999 bytes"):
        read(data, ExtractLimits(expanded_bytes=4_999))
    assert len(read(data, ExtractLimits(expanded_bytes=5_000))) == 1_000


def test_a_file_that_cannot_be_opened_is_unreadable(tmp_path: Path) -> None:
    """A missing file and a directory are UnreadableDocument."""
    for path in (tmp_path / "missing.ndjson", tmp_path):
        with pytest.raises(UnreadableDocument, match="cannot be read"):
            list(read_ndjson_lines(path))


def test_lines_come_as_the_stream_gives_them() -> None:
    """Reading is lazy: the first line needs no more than the first chunk."""
    stream = BytesIO(b"one\n" + b"x\n" * MIB)
    assert next(read_ndjson_lines(stream)).data == b"one"
    assert stream.tell() < 100_000


def _good_lines(stream: BytesIO) -> list[bytes]:
    good = []
    lines = read_ndjson_lines(stream)
    while True:
        try:
            good.append(next(lines).data)
        except UnreadableDocument:
            return good
