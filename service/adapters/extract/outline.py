"""Headings to paths: collects a document's blocks and files each under the headings above it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from service.adapters.extract.decoding import clean
from service.adapters.extract.document import Block, ExtractedDocument
from service.errors import EmptyDocument, TooLarge

PATH_SEPARATOR = " > "
MAX_HEADING_CHARS = 120
MAX_PATH_CHARS = 400
MAX_TITLE_CHARS = 300

# Blanks that no layout needs: they would make a passage huge while it counts as small.
_MAX_UNCHECKED_CHARS = 2_000
_WIDE_GAP = re.compile(r"[^\S\n]{100,}")
_TALL_GAP = re.compile(r"\n(?:[^\S\n]*+\n){9,}+")


@dataclass(slots=True)
class _OpenHeading:
    level: int
    text: str
    in_a_path: bool = False


class OutlineBuilder:
    """Collects headings and texts in document order and answers with the extracted document.

    A first heading of level 1 is the title and part of no path. No word of a heading is lost: one with
    nothing under it, and one too long for a path, is also a block of its own.
    """

    def __init__(self, max_blocks: int, *, first_h1_is_title: bool = True) -> None:
        self._blocks: list[Block] = []
        self._open: list[_OpenHeading] = []
        self._path: str | None = None
        self._max_blocks = max_blocks
        self._awaits_title = first_h1_is_title
        self._title: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store yet; a title alone is nothing."""
        return not self._blocks and not self._open

    def add_heading(self, level: int, text: str) -> None:
        """Open a section of `level` 1 (outermost) to 6; a heading without text is none."""
        text = " ".join(clean(text).split())
        if not text:
            return
        self._close(level)
        is_title, self._awaits_title = self._awaits_title and level == 1, False
        if is_title:
            self._title = _shortened(text, MAX_TITLE_CHARS)
        else:
            self._open.append(_OpenHeading(level, _shortened(text, MAX_HEADING_CHARS)))
            self._path = self._joined_path()
        if len(text) > (MAX_TITLE_CHARS if is_title else MAX_HEADING_CHARS):
            self.add_text(text)

    def add_text(self, text: str) -> None:
        """File one block under the open headings; blank text is ignored.

        Raises:
            TooLarge: the document has more blocks than allowed.
        """
        text = clean(text).strip("\n").rstrip()
        if not text:
            return
        if len(text) > _MAX_UNCHECKED_CHARS:
            text = _WIDE_GAP.sub(" ", _TALL_GAP.sub("\n\n", text))
        if len(self._blocks) >= self._max_blocks:
            raise TooLarge(f"The document has more than {self._max_blocks} blocks.")
        for heading in self._open:
            heading.in_a_path = True
        self._blocks.append(Block(self._path, text))

    def document(
        self, metadata: Mapping[str, object], fallback_title: str | None = None
    ) -> ExtractedDocument:
        """The finished document; its own title goes before `fallback_title`.

        Raises:
            EmptyDocument: no text was added, whatever the title.
        """
        self._close(1)
        if not self._blocks:
            raise EmptyDocument("The document holds no text.")
        stated = metadata.get("title")
        if self._title and isinstance(stated, str) and stated.strip() and not _same(stated, self._title):
            self._blocks.insert(0, Block(None, self._title))  # the stated title wins, and no word is lost
        fallback = _shortened(" ".join(clean(fallback_title or "").split()), MAX_TITLE_CHARS)
        return ExtractedDocument(self._title or fallback or None, metadata, tuple(self._blocks))

    def _close(self, level: int) -> None:
        """Close open headings of `level` and deeper; one that named no block becomes a block."""
        while self._open and self._open[-1].level >= level:
            closed = self._open.pop()
            self._path = self._joined_path()
            if not closed.in_a_path:
                self.add_text(closed.text)

    def _joined_path(self) -> str | None:
        if not self._open:
            return None
        room = MAX_PATH_CHARS // len(self._open) - len(PATH_SEPARATOR)
        path = PATH_SEPARATOR.join(heading.text for heading in self._open)
        if len(path) > MAX_PATH_CHARS:
            path = PATH_SEPARATOR.join(_shortened(heading.text, room) for heading in self._open)
        return path


def _same(left: str, right: str) -> bool:
    return left.casefold().split() == right.casefold().split()


def _shortened(text: str, length: int) -> str:
    """At most `length` characters of `text`, cut between words where one ends in reach, then "…"."""
    if len(text) <= length:
        return text
    kept = text[: length - 1]
    return (kept.rpartition(" ")[0] or kept).rstrip() + "…"
