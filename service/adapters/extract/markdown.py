"""Markdown to blocks: the source of each top-level element, under the headings above it."""

from collections.abc import Iterator
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

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
    """A block parser's state that keeps top-level tokens only: nested ones are text of the element above."""

    max_tokens = 0

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        """The new token, kept if it is top-level or a heading's content.

        Raises:
            TooLarge: the document has too many elements.
        """
        token = super().push(ttype, tag, nesting)
        in_heading = len(self.tokens) > 1 and self.tokens[-2].type == "heading_open"
        if token.level > 0 and not in_heading:
            self.tokens.pop()
        elif len(self.tokens) > self.max_tokens:
            raise TooLarge("The document has too many elements.")
        return token


def extract_markdown(data: bytes, limits: ExtractLimits) -> ExtractedDocument:
    """Blocks of Markdown source: emphasis, links, tables, lists and code stay as written.

    Reference links become inline links; HTML blocks give their text; comments, inline tags and thematic
    breaks are dropped. A first heading of level 1 is the title, else the front matter's `title`.

    Raises:
        UnreadableDocument, EmptyDocument, TooLarge, InvalidText: see `extract`.
    """
    metadata, body = split_front_matter(decode(data))
    outline = OutlineBuilder(limits.blocks)
    _add_elements(body, outline, max_tokens=3 * limits.blocks)
    title = metadata.get("title")
    return outline.document(metadata, title if isinstance(title, str) else None)


def _add_elements(body: str, outline: OutlineBuilder, *, max_tokens: int) -> None:
    parser = MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING})
    state = _TopLevelState(body, parser, {}, [])
    state.max_tokens = max_tokens
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
        if token.level == 0 and token.nesting >= 0:
            content = tokens[number + 1].content if token.type == "heading_open" else ""
            yield token, content
