"""The lines of one block of a page, with links as labels and, in parallel, as Markdown links."""

from urllib.parse import urljoin

from service.core.links import is_link_stub

_NOT_A_LINK = ("#", "javascript:", "vbscript:", "data:", "mailto:", "tel:", "sms:")


class PageLines:
    """Collects inline text into lines and lines into a block's text.

    A link is its label, except in a block that is a link stub: that block keeps Markdown links, so that the
    passage it becomes is recognised as a stub.
    """

    def __init__(self, base_url: str | None) -> None:
        self._base_url = base_url
        self._line: list[str] = []
        self._linked_line: list[str] = []
        self._lines: list[str] = []
        self._linked_lines: list[str] = []
        self._link: tuple[str, int, int] | None = None
        self.mark = ""

    @property
    def line_is_empty(self) -> bool:
        """Whether nothing, not even white space, was written since the last line ended."""
        return not self._line

    @property
    def has_words(self) -> bool:
        """Whether the block holds more than white space."""
        return bool(self._lines) or any(not text.isspace() for text in self._line)

    def write(self, text: str | None) -> None:
        """Add inline text."""
        if text:
            self._line.append(text)
            self._linked_line.append(text)

    def open_link(self, target: str) -> None:
        """Begin a link; one that leads nowhere else (a fragment, mail, a script) is plain text."""
        self.close_link()
        target = target.strip()
        if target and not target.lower().startswith(_NOT_A_LINK):
            self._link = (target, len(self._line), len(self._linked_line))

    def close_link(self) -> None:
        """End the open link, if there is one."""
        if self._link is None:
            return
        target, start, linked_start = self._link
        self._link = None
        label = " ".join("".join(self._line[start:]).split()).replace("[", "(").replace("]", ")")
        if label:
            self._linked_line[linked_start:] = [f" [{label}]({self._absolute(target)}) "]

    def end_line(self, *, verbatim: bool) -> None:
        """Close the line, with `mark` before it; blank lines vanish, and blanks unless `verbatim`."""
        self.close_link()
        line = _rendered(self._line, verbatim=verbatim)
        if line.strip():
            self._lines.append(self.mark + line)
            self._linked_lines.append(self.mark + _rendered(self._linked_line, verbatim=verbatim))
            self.mark = ""
        self._line.clear()
        self._linked_line.clear()

    def take(self) -> str:
        """The block's text; the next block begins."""
        text, linked = "\n".join(self._lines), "\n".join(self._linked_lines)
        self._lines.clear()
        self._linked_lines.clear()
        self.mark = ""
        return linked if linked != text and is_link_stub(linked) else text

    def _absolute(self, target: str) -> str:
        try:
            joined = urljoin(self._base_url or "", target)
        except ValueError:  # such as an unfinished IPv6 address
            joined = target
        return "%20".join(joined.split()).replace("(", "%28").replace(")", "%29").replace("<", "%3C")


def _rendered(pieces: list[str], *, verbatim: bool) -> str:
    text = "".join(pieces)
    return text.strip("\n") if verbatim else " ".join(text.split())
