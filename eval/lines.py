"""Lines of judged data, read strictly: what is wrong is said by file and line."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from eval.errors import MalformedLine, MissingFile

T = TypeVar("T")


def read_text(path: Path) -> str:
    """A whole UTF-8 file. Raises MissingFile, MalformedLine."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise MissingFile(
            f"{path.parent.name}/{path.name} cannot be read ({type(error).__name__})"
        ) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise MalformedLine.at(path, line, "not UTF-8") from error


def numbered(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that hold anything, with their numbers from 1. Raises MissingFile, MalformedLine."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r")


def json_lines(path: Path, kind: type[T]) -> Iterator[tuple[int, T]]:
    """One JSON object a line. Raises MissingFile, MalformedLine."""
    for number, line in numbered(path):
        try:
            yield number, msgspec.json.decode(line, type=kind)
        except msgspec.MsgspecError as error:
            raise MalformedLine.at(path, number, str(error)) from error


def table_rows(path: Path, columns: int) -> Iterator[tuple[int, list[str]]]:
    """The rows below the heading of a tab-separated file. Raises MissingFile, MalformedLine."""
    for number, line in numbered(path):
        (row,) = csv.reader([line], delimiter="\t", quoting=csv.QUOTE_NONE)
        if len(row) < columns or not all(cell.strip() for cell in row[:columns]):
            raise MalformedLine.at(path, number, f"{columns} tab-separated columns are needed")
        if number == 1 and row[0] == "query-id":
            continue
        yield number, row


def whole_number(path: Path, line: int, text: str, name: str) -> int:
    """An integer in a column. Raises MalformedLine."""
    try:
        return int(text)
    except ValueError as error:
        raise MalformedLine.at(path, line, f"{name} is no whole number: {text[:40]!r}") from error
