"""Inside a Markdown element: headings as plain words, references resolved, hidden HTML dropped."""

import html
import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.token import Token
from markdown_it.utils import EnvType

# Known tags only: `Vec<String>` and `<name>` in prose are words, not markup.
_TAGS = (
    "a|abbr|b|big|br|center|cite|code|del|details|div|dfn|em|font|i|img|ins|kbd|mark|p|picture|q|s|samp|small"
    "|source|span|strike|strong|sub|summary|sup|table|tbody|td|th|thead|tr|tt|u|ul|ol|li|var|wbr"
)
_TICKS = re.compile("`+")
_TAG_OR_ENTITY = re.compile(
    rf"(?P<break></?(?:br|p|div|li|tr|td|th)(?:\s[^<>]*)?/?>)"
    rf"|</?(?:{_TAGS})(?:\s[^<>]*)?/?>"
    r"|(?P<entity>&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w{2,31});)",
    re.IGNORECASE | re.ASCII,
)
_HIDDEN = (("<!--", "-->"), ("<script", "</script>"), ("<style", "</style>"))
_REFERENCE = re.compile(r"(?<!\\)\[(?P<text>[^\[\]]{1,300})\](?:\[(?P<label>[^\[\]]{0,300})\])?(?![\[(:])")
_MARKUP = re.compile(r"[\\`*_\[\]<&!~]")
_ANCHOR = re.compile(r"\s*\{#[\w.:-]+\}\s*\Z")

# Inline parsing is not linear in its input; a heading beyond this keeps its markup.
_MAX_PARSED_HEADING = 300
_MAX_TARGET_CHARS = 2_000
_MIN_GROWTH = 100_000


class InlineReader:
    """Reads the inside of one document's elements; knows its link reference definitions.

    Resolving references may at most double the text: one long target, referred to a million times, must not
    fill the memory.
    """

    def __init__(self, parser: MarkdownIt, env: EnvType, text_chars: int) -> None:
        self._parser = parser
        self._env = env
        references: object = env.get("references", {})
        self._references = references if isinstance(references, dict) else {}
        self._growth_left = max(text_chars, _MIN_GROWTH)

    def plain(self, content: str) -> str:
        """A heading's words without markup: link labels, code and image descriptions, not their targets."""
        content = _ANCHOR.sub("", content)
        if not _MARKUP.search(content) or len(content) > _MAX_PARSED_HEADING:
            return content
        tokens = self._parser.parseInline(content, self._env)
        return "".join(_spoken(child) for token in tokens for child in token.children or ())

    def source(self, source: str) -> str:
        """An element's source with inline links for references, characters for entities, no hidden HTML."""
        if self._references and "]" in source:
            source = _REFERENCE.sub(self._resolved, source)
        if "<" in source or "&" in source:
            for opening, closing in _HIDDEN:
                source = _without(source, opening, closing)
            source = "".join(
                text if is_code else _TAG_OR_ENTITY.sub(_shown, text) for text, is_code in _code_spans(source)
            )
        return source

    def _resolved(self, link: re.Match[str]) -> str:
        found: object = self._references.get(normalizeReference(link["label"] or link["text"]))
        target: object = found.get("href") if isinstance(found, dict) else None
        if not isinstance(target, str) or len(target) > min(_MAX_TARGET_CHARS, self._growth_left):
            return link[0]
        self._growth_left -= len(target)
        return f"[{link['text']}]({target})"


def _spoken(token: Token) -> str:
    if token.type in ("text", "code_inline", "image", "text_special"):
        return token.content
    return " " if token.type in ("softbreak", "hardbreak") else ""


def _shown(match: re.Match[str]) -> str:
    if match["entity"] is not None:
        character = html.unescape(match[0])
        return match[0] if character in "<>" else character  # text must not turn into a tag
    return " " if match["break"] is not None else ""


def _code_spans(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, each with whether it is a code span: backticks to the next run of as many."""
    runs = list(_TICKS.finditer(text))
    closing: dict[int, int] = {}
    latest: dict[int, int] = {}
    for number in range(len(runs) - 1, -1, -1):
        length = len(runs[number][0])
        closing[number] = latest.get(length, -1)
        latest[length] = number
    position = number = 0
    while number < len(runs):
        end = closing[number]
        if end >= 0:
            yield text[position : runs[number].start()], False
            position = runs[end].end()
            yield text[runs[number].start() : position], True
        number = max(end, number) + 1
    yield text[position:], False


def _without(text: str, opening: str, closing: str) -> str:
    """`text` without what stands between `opening` and `closing`; an opening never closed is kept."""
    kept, position = [], 0
    while (start := text.find(opening, position)) >= 0 and (end := text.find(closing, start)) >= 0:
        kept.append(text[position:start])
        position = end + len(closing)
    return "".join([*kept, text[position:]]) if kept else text
