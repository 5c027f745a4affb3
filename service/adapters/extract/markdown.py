"""Markdown to blocks: the source of each top-level element, under the headings above it."""

from collections.abc import Iterator
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

from service.adapters.extract.clock import Clock
from service.adapters.extract.decoding import decode
from service.adapters.extract.document import ExtractedDocument, ExtractLimits
from service.adapters.extract.front_matter import split_front_matter
from service.adapters.extract.markdown_inline import InlineReader
from service.adapters.extract.outline import OutlineBuilder
from service.adapters.extract.web_page import add_fragment
from service.errors import TooLarge

# Deeper nesting stays text of the element it is in; without a bound it would exhaust the stack.
_MAX_NESTING = 100

_VERBATIM = frozenset({"fence", "code_block"})


class _TopLevelState(StateBlock):
    """A block parser's state that keeps the opening of each top-level element and a heading's content.

    All other tokens share one that is never read: nested elements are text of the element above them, and
    a list of a million items takes no more memory than its source.
    """

    def __init__(self, source: str, parser: MarkdownIt, max_tokens: int, clock: Clock) -> None:
        super().__init__(source, parser, {}, [])
        self._discarded = Token("", "", 0)
        self._max_tokens = max_tokens
        self._clock = clock

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        """The new token, kept or not.

        Raises:
            TooLarge: the document has too many elements or takes too long.
        """
        self._clock.check()
        in_heading = self.level == 1 and bool(self.tokens) and self.tokens[-1].type == "heading_open"
        if nesting >= 0 and (self.level == 0 or in_heading):
            if len(self.tokens) >= self._max_tokens:
                raise TooLarge("The document has too many elements.")
            return super().push(ttype, tag, nesting)
        self.level += nesting
        return self._discarded


def extract_markdown(data: bytes, limits: ExtractLimits) -> ExtractedDocument:
    """Blocks of Markdown source: emphasis, links, tables, lists and code stay as written.

    Reference links become inline links; HTML blocks give their text; comments, inline tags and thematic
    breaks are dropped. A first heading of level 1 is the title, else the front matter's `title`.

    Raises:
        UnreadableDocument, EmptyDocument, TooLarge, InvalidText: see `extract`.
    """
    metadata, body = split_front_matter(decode(data))
    outline = OutlineBuilder(limits.blocks)
    _add_elements(body, outline, limits)
    title = metadata.get("title")
    return outline.document(metadata, title if isinstance(title, str) else None)


def _add_elements(body: str, outline: OutlineBuilder, limits: ExtractLimits) -> None:
    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING})
    state = _TopLevelState(body, parser, 2 * limits.blocks, Clock(limits.cpu_seconds))
    parser.block.tokenize(state, state.line, state.lineMax)
    inline = InlineReader(parser, state.env, len(body))
    lines = body.split("\n")
    for element, content in _elements(state.tokens):
        if element.type == "heading_open":
            outline.add_heading(int(element.tag[1]), inline.plain(content))
        elif element.type == "html_block":
            add_fragment(element.content, outline)
        elif element.map is not None and element.type != "hr":
            source = "\n".join(lines[element.map[0] : element.map[1]])
            outline.add_text(source if element.type in _VERBATIM else inline.source(source))


def _elements(tokens: list[Token]) -> Iterator[tuple[Token, str]]:
    """Each top-level element's opening token, and a heading's content."""
    for number, token in enumerate(tokens):
        if token.level == 0:
            content = tokens[number + 1].content if token.type == "heading_open" else ""
            yield token, content
