"""A walk over an HTML tree in document order that writes lines, closes blocks and opens headings."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urljoin

from lxml import etree

from service.adapters.extract.outline import OutlineBuilder
from service.core.links import is_link_stub

_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_COMPOUNDS = frozenset({"ul", "ol", "menu", "dir", "dl", "table"})
_BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details dialog div dt fieldset figcaption figure"
    " footer form header hgroup hr legend li main nav p pre search section summary tr".split()
)
_CELLS = frozenset({"td", "th"})
_LISTS = frozenset({"ul", "ol", "menu", "dir"})

_NOT_TEXT = frozenset(
    "script style noscript template iframe frame frameset noframes object embed applet canvas audio video svg map"
    " select option datalist textarea input button title head".split()
)
_NAVIGATION = frozenset({"nav", "footer"})
_BOILERPLATE = _NAVIGATION | {"header", "aside", "form", "search"}
_NAVIGATION_ROLES = frozenset({"navigation", "contentinfo"})
_BOILERPLATE_ROLES = _NAVIGATION_ROLES | {"banner", "complementary", "search"}
_NOT_A_LINK = ("#", "javascript:", "data:", "mailto:", "tel:", "sms:", "vbscript:")


@dataclass(frozen=True, slots=True)
class PageParts:
    """Which elements of a page are not its content."""

    tags: frozenset[str]
    roles: frozenset[str]


CONTENT_ONLY = PageParts(_NOT_TEXT | _BOILERPLATE, _BOILERPLATE_ROLES)
NO_NAVIGATION = PageParts(_NOT_TEXT | _NAVIGATION, _NAVIGATION_ROLES)
ALL_PARTS = PageParts(_NOT_TEXT, frozenset())


class PageWalk:
    """Reads one element's content into an outline, without recursion and in time linear in its size.

    A list, definition list or table is one block: an item a line, a row a line with its cells between
    bars. `<pre>` keeps its lines and blanks. Links are their labels, except in a block that is a link stub:
    there they are Markdown links, so that it is recognised as one later.
    """

    def __init__(self, outline: OutlineBuilder, left_out: PageParts, base_url: str | None) -> None:
        self._outline = outline
        self._left_out = left_out
        self._base_url = base_url
        self._line: list[str] = []
        self._linked_line: list[str] = []
        self._lines: list[str] = []
        self._linked_lines: list[str] = []
        self._link: tuple[str, int, int] | None = None
        self._heading = 0
        self._compounds = 0
        self._rows = 0
        self._pre = 0
        self._lists: list[int | None] = []
        self._mark = ""

    def read(self, content: "etree._Element") -> None:
        """Add the element's text to the outline."""
        events = etree.iterwalk(content, events=("start", "end"))
        left_out = None
        for event, element in events:
            if event == "start":
                if self._is_left_out(element) and element is not content:
                    left_out = element
                    events.skip_subtree()
                    continue
                self._open(element.tag, element.attrib)
                self._write(element.text)
                continue
            if element is not left_out:
                self._close(element.tag)
            if element is not content:
                self._write(element.tail)
        self._end_block()

    def _is_left_out(self, element: "etree._Element") -> bool:
        tag, attributes = element.tag, element.attrib
        if tag in self._left_out.tags:
            return not _holds_content(element)
        if not attributes:
            return False
        return _is_hidden(tag, attributes) or attributes.get("role") in self._left_out.roles

    def _open(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag in _HEADINGS:
            self._end_block()
            self._heading = int(tag[1])
        elif tag == "a":
            self._open_link(attributes.get("href", ""))
        elif tag == "br":
            self._break()
        elif tag in _COMPOUNDS:
            self._open_compound(tag)
        elif tag in _CELLS:
            self._open_cell()
        elif tag in _BLOCKS:
            self._boundary(tag)
            self._open_block(tag)

    def _close(self, tag: str) -> None:
        if tag in _HEADINGS:
            self._end_block()
        elif tag == "a":
            self._close_link()
        elif tag in _COMPOUNDS:
            self._close_compound(tag)
        elif tag in _BLOCKS:
            self._boundary(tag)
            self._pre -= tag == "pre"
            self._rows -= tag == "tr"

    def _open_block(self, tag: str) -> None:
        if tag == "li":
            self._mark = self._next_mark()
        self._pre += tag == "pre"
        self._rows += tag == "tr"

    def _boundary(self, tag: str) -> None:
        """The start or end of a block: a new block, inside a list or table a new line, in a cell a space."""
        if self._rows and tag not in ("tr", "li", "pre"):
            self._write(" ")
        elif self._heading and not self._has_words():
            return
        elif self._compounds and not self._heading:
            self._end_line()
        else:
            self._end_block()

    def _open_compound(self, tag: str) -> None:
        if self._compounds == 0 or self._heading:
            self._end_block()
        self._end_line()
        self._compounds += 1
        if tag in _LISTS:
            self._lists.append(0 if tag == "ol" else None)

    def _close_compound(self, tag: str) -> None:
        self._end_line()
        self._compounds -= 1
        if tag in _LISTS:
            self._lists.pop()
        if self._compounds == 0:
            self._end_block()

    def _open_cell(self) -> None:
        if self._line:
            self._write(" | ")
        else:
            self._write(" ")

    def _next_mark(self) -> str:
        if not self._lists:
            return "- "
        number = self._lists[-1]
        indent = "  " * min(len(self._lists) - 1, 6)
        if number is None:
            return f"{indent}- "
        self._lists[-1] = number + 1
        return f"{indent}{number + 1}. "

    def _break(self) -> None:
        if self._rows or self._heading:
            self._write(" ")
        elif self._pre:
            self._write("\n")
        else:
            self._end_line()

    def _open_link(self, target: str) -> None:
        self._close_link()
        target = target.strip()
        if target and not target.lower().startswith(_NOT_A_LINK):
            self._link = (self._absolute(target), len(self._line), len(self._linked_line))

    def _close_link(self) -> None:
        if self._link is None:
            return
        target, start, linked_start = self._link
        self._link = None
        label = " ".join("".join(self._line[start:]).split())
        if label:
            label = label.replace("[", "(").replace("]", ")")
            self._linked_line[linked_start:] = [f" [{label}]({target}) "]

    def _absolute(self, target: str) -> str:
        try:
            target = urljoin(self._base_url or "", target)
        except ValueError:  # such as an unfinished IPv6 address
            pass
        return "%20".join(target.split()).replace("(", "%28").replace(")", "%29").replace("<", "%3C")

    def _write(self, text: str | None) -> None:
        if text:
            self._line.append(text)
            self._linked_line.append(text)

    def _has_words(self) -> bool:
        return bool(self._lines) or any(not text.isspace() for text in self._line)

    def _end_line(self) -> None:
        self._close_link()
        line = self._rendered(self._line)
        if line.strip():
            self._lines.append(self._mark + line)
            self._linked_lines.append(self._mark + self._rendered(self._linked_line))
            self._mark = ""
        self._line.clear()
        self._linked_line.clear()

    def _rendered(self, pieces: list[str]) -> str:
        text = "".join(pieces)
        return text.strip("\n") if self._pre else " ".join(text.split())

    def _end_block(self) -> None:
        self._end_line()
        text, linked = "\n".join(self._lines), "\n".join(self._linked_lines)
        self._lines.clear()
        self._linked_lines.clear()
        if self._heading:
            self._outline.add_heading(self._heading, text)
            self._heading = 0
        elif text:
            self._outline.add_text(linked if linked != text and is_link_stub(linked) else text)


def _is_hidden(tag: str, attributes: Mapping[str, str]) -> bool:
    if attributes.get("hidden", "until-found").lower() != "until-found":
        return True
    if attributes.get("aria-hidden", "").lower() == "true" or (tag == "dialog" and "open" not in attributes):
        return True
    style = "".join(attributes.get("style", "").lower().split())
    return "display:none" in style or "visibility:hidden" in style


def _holds_content(element: "etree._Element") -> bool:
    """Whether a header or form is part of the content: an article's headline, a form around the page."""
    if element.tag == "header":
        return next(element.iterancestors("main", "article"), None) is not None
    return element.tag == "form" and next(element.iter(*_HEADINGS), None) is not None
