"""The checksums tantivy writes at the end of its files, checked before an index on disk is trusted.

A file is: its content, a JSON footer with the content's CRC-32, the footer's length and a magic number, four
bytes each, little endian. tantivy itself does not read the checksum when it opens a file. `meta.json` has
none: what it may say wrongly shows when it is parsed, when files are missing, or when documents are counted.
"""

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

MAGIC = 1337
_TAIL = 8  # bytes: the footer's length and the magic number
_LONGEST_FOOTER = 10_000  # bytes
_BLOCK = 1 << 20  # bytes read at a time


_LOOKS = 3  # a merge may end, and remove files, while they are looked at


def all_intact(folder: Path) -> bool:
    """Whether every file of the index's segments is as tantivy wrote it."""
    for _ in range(_LOOKS):
        try:
            return all(_is_intact(path) for path in _segment_files(folder))
        except FileNotFoundError:
            continue
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return False
    return False


def _segment_files(folder: Path) -> Iterator[Path]:
    """The files `meta.json` refers to; what else lies about was left by a crash and is read by nobody."""
    meta = json.loads((folder / "meta.json").read_bytes())
    deletes = {segment["segment_id"].replace("-", ""): segment.get("deletes") for segment in meta["segments"]}
    for path in sorted(folder.glob("*.*")):
        segment, *middle, suffix = path.name.split(".")
        if segment not in deletes:
            continue
        applied = deletes[segment]
        if suffix != "del" or (applied is not None and middle == [str(applied["opstamp"])]):
            yield path


def _is_intact(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < _TAIL:
            return False
        file.seek(size - _TAIL)
        length, magic = (int.from_bytes(file.read(4), "little") for _ in range(2))
        content = size - _TAIL - length
        if magic != MAGIC or length > _LONGEST_FOOTER or content < 0:
            return False
        file.seek(content)
        footer = json.loads(file.read(length))
        file.seek(0)
        return bool(footer["crc"] == _crc(file, content))


def _crc(file: IO[bytes], length: int) -> int:
    crc = 0
    while length and (block := file.read(min(length, _BLOCK))):
        crc = zlib.crc32(block, crc)
        length -= len(block)
    return crc
