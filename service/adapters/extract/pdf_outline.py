"""A PDF's outline (bookmarks) as headings, looked up as lines of the page they lead to."""

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pypdf import PdfReader, apply_configuration
from pypdf.errors import DependencyError, DeprecationError, PyPdfError
from pypdf.generic import Destination

from service.adapters.extract.outline import OutlineBuilder
from service.adapters.extract.plain_text import BLANK_LINES

# pypdf checks little: a damaged file surfaces as whatever Python raises on the first wrong value.
DAMAGE = (
    PyPdfError,
    DependencyError,
    DeprecationError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
)
_MAX_ENTRIES = 10_000
_MAX_LEVEL = 6
_MAX_HEADING_LINES = 3


@dataclass(frozen=True, slots=True)
class PageHeading:
    """An outline entry: its depth, 1 (outermost) to 6, and its title."""

    level: int
    title: str


def headings_by_page(reader: PdfReader) -> Mapping[int, Sequence[PageHeading]]:
    """The outline's entries by page number from 0, in outline order; none where the outline is damaged."""
    found: dict[int, list[PageHeading]] = {}
    try:
        with apply_configuration(outline_maximum_entries=_MAX_ENTRIES):
            for level, entry in _entries(reader.outline, 1):
                page = reader.get_destination_page_number(entry)
                if page is not None and page >= 0 and entry.title is not None:
                    found.setdefault(page, []).append(PageHeading(level, str(entry.title)))
    except DAMAGE:  # an outline only helps: without it the text is as complete
        return {}
    return found


def add_page(outline: OutlineBuilder, text: str, headings: Sequence[PageHeading]) -> None:
    """Add a page's paragraphs, each under the heading whose line stands before it.

    A heading that no line repeats begins with the page if it is the page's first, and is left out otherwise.
    """
    lines = text.split("\n")
    done = 0
    for number, heading in enumerate(headings):
        place = _place(lines, heading.title, done)
        if place is not None:
            start, end = place
            _add_lines(outline, lines[done:start])
            outline.add_heading(heading.level, " ".join(lines[start:end]))
            done = end
        elif number == 0:
            outline.add_heading(heading.level, heading.title)
    _add_lines(outline, lines[done:])


def _entries(outline: Sequence[object], level: int) -> Iterator[tuple[int, Destination]]:
    """Entries with their levels; in pypdf the list after an entry holds those below it."""
    for entry in outline:
        if isinstance(entry, list):
            yield from _entries(entry, min(level + 1, _MAX_LEVEL))
        elif isinstance(entry, Destination):
            yield level, entry


def _place(lines: Sequence[str], title: str, start: int) -> tuple[int, int] | None:
    """The lines, as start and end, that read as `title`, its number aside: one line, or up to three."""
    wanted = _letters(title)
    if not wanted:
        return None
    for first in range(start, len(lines)):
        read = ""
        for last in range(first, min(first + _MAX_HEADING_LINES, len(lines))):
            read += _letters(lines[last])
            if read == wanted:
                return first, last + 1
            if not read or not wanted.startswith(read):
                break
    return None


def _letters(text: str) -> str:
    """What remains of a heading when spacing, case, signs and its number are set aside."""
    kept = "".join(character for character in text.casefold() if character.isalnum())
    return kept.lstrip("0123456789") or kept


def _add_lines(outline: OutlineBuilder, lines: Sequence[str]) -> None:
    for paragraph in BLANK_LINES.split("\n".join(lines)):
        outline.add_text(paragraph)
