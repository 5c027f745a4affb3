"""A walk over an HTML tree in document order that writes lines, closes blocks and opens headings."""

from lxml import etree

from service.adapters.extract.outline import OutlineBuilder
from service.adapters.extract.page_lines import PageLines
from service.adapters.extract.page_parts import HEADINGS, PageParts

_LISTS = frozenset({"ul", "ol", "menu", "dir"})
_COMPOUNDS = _LISTS | {"dl", "table"}
_BLOCKS = frozenset(
    {
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "div",
    }
    | {"dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "legend", "li"}
    | {"main", "nav", "p", "pre", "search", "section", "summary", "tr"}
)
_CELLS = frozenset({"td", "th"})
_LINES_IN_A_CELL = frozenset({"tr", "li", "pre"})
_MAX_INDENT = 6


class PageWalk:
    """Reads one element's content into an outline, without recursion and in time linear in its size.

    A list, definition list or table is one block: an item a line, a row a line with its cells between
    bars. `<pre>` keeps its lines and blanks.
    """

    def __init__(self, outline: OutlineBuilder, parts: PageParts, base_url: str | None) -> None:
        self._outline = outline
        self._parts = parts
        self._lines = PageLines(base_url)
        self._heading = 0
        self._compounds = 0
        self._rows = 0
        self._pre = 0
        self._lists: list[int | None] = []  # the last number of each open ordered list

    def read(self, content: "etree._Element") -> None:
        """Add the element's text to the outline."""
        events = etree.iterwalk(content, events=("start", "end"))
        left_out = None
        for event, element in events:
            if event == "start":
                if element is not content and self._parts.leave_out(element):
                    left_out = element
                    events.skip_subtree()
                else:
                    self._open(element)
                    self._lines.write(element.text)
                continue
            if element is not left_out:
                self._close(element.tag)
            if element is not content:
                self._lines.write(element.tail)
        self._end_block()

    def _open(self, element: "etree._Element") -> None:
        tag: str = element.tag
        if tag in HEADINGS:
            self._end_block()
            self._heading = int(tag[1])
        elif tag == "a":
            self._lines.open_link(element.get("href", ""))
        elif tag == "br":
            self._break()
        elif tag in _COMPOUNDS:
            self._open_compound(tag)
        elif tag in _CELLS:
            self._lines.write(" " if self._lines.line_is_empty else " | ")
        elif tag in _BLOCKS:
            self._boundary(tag)
            self._open_block(tag)

    def _close(self, tag: str) -> None:
        if tag in HEADINGS:
            self._end_block()
        elif tag == "a":
            self._lines.close_link()
        elif tag in _COMPOUNDS:
            self._close_compound(tag)
        elif tag in _BLOCKS:
            self._boundary(tag)
            self._pre -= tag == "pre"
            self._rows -= tag == "tr"

    def _open_block(self, tag: str) -> None:
        if tag == "li":
            self._lines.mark = self._next_mark()
        self._pre += tag == "pre"
        self._rows += tag == "tr"

    def _boundary(self, tag: str) -> None:
        """The start or end of a block: a new block, inside a list or table a new line, in a cell a space."""
        if self._rows and tag not in _LINES_IN_A_CELL:
            self._lines.write(" ")
        elif self._heading:
            # A heading never closed ends where the next block begins, once it has words.
            if self._lines.has_words:
                self._end_block()
        elif self._compounds:
            self._end_line()
        else:
            self._end_block()

    def _open_compound(self, tag: str) -> None:
        if self._compounds and not self._heading:
            self._end_line()
        else:
            self._end_block()
        self._compounds += 1
        if tag in _LISTS:
            self._lists.append(0 if tag == "ol" else None)

    def _close_compound(self, tag: str) -> None:
        self._compounds -= 1
        if tag in _LISTS:
            self._lists.pop()
        if self._compounds:
            self._end_line()
        else:
            self._end_block()

    def _next_mark(self) -> str:
        indent = "  " * min(len(self._lists) - 1, _MAX_INDENT)
        number = self._lists[-1] if self._lists else None
        if number is None:
            return f"{indent}- "
        self._lists[-1] = number + 1
        return f"{indent}{number + 1}. "

    def _break(self) -> None:
        if self._rows or self._heading:
            self._lines.write(" ")
        elif self._pre:
            self._lines.write("\n")
        else:
            self._end_line()

    def _end_line(self) -> None:
        self._lines.end_line(verbatim=self._pre > 0)

    def _end_block(self) -> None:
        self._end_line()
        text = self._lines.take()
        if self._heading:
            self._outline.add_heading(self._heading, text)
            self._heading = 0
        else:
            self._outline.add_text(text)
