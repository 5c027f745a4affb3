"""HTML to blocks: the main content's visible text, without navigation and other boilerplate."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

from lxml import etree

from service.adapters.extract.decoding import decode
from service.adapters.extract.document import ExtractedDocument, ExtractLimits
from service.adapters.extract.outline import OutlineBuilder
from service.adapters.extract.page_parts import ALL_PARTS, CONTENT_ONLY, NO_NAVIGATION, PageParts
from service.adapters.extract.page_walk import PageWalk
from service.errors import EmptyDocument, UnreadableDocument

_HEAD_BYTES = 4096
_STATED_ENCODING = re.compile(
    rb"""<(?:meta|\?xml)\b[^>]{0,300}?\b(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]{1,40})""", re.I
)
_MAX_URL_CHARS = 2_048
_MAX_LANG_CHARS = 35  # the longest tag BCP 47 asks software to keep


def extract_web_page(data: bytes, limits: ExtractLimits) -> ExtractedDocument:
    """Blocks of the page's main content: its one `<main>`, else the body.

    Scripts, styles, hidden text, navigation, asides, forms, page headers and footers are dropped, unless
    nothing else holds text. A first `<h1>` is the title, else `og:title`, `<title>` or any `<h1>`; one that was
    never closed and so holds the whole page is a heading like any other.

    Raises:
        UnreadableDocument, EmptyDocument, TooLarge, InvalidText: see `extract`.
    """
    stated = _STATED_ENCODING.search(data[:_HEAD_BYTES])
    root = _parsed(decode(data, stated[1].decode("ascii") if stated else None))
    if root is None:
        raise EmptyDocument("The page holds no text.")
    metadata = _metadata(root)
    base = metadata.get("canonical_url")
    readings = [(reading, True) for reading in _readings(root)]
    if root.xpath("boolean(body//h1//*[self::div or self::p or self::table or self::ul or self::section])"):
        readings += [(reading, False) for reading, _ in readings]
    for (content, parts), first_h1_is_title in readings:
        outline = OutlineBuilder(limits.blocks, first_h1_is_title=first_h1_is_title)
        PageWalk(outline, parts, base if isinstance(base, str) else None).read(content)
        if not outline.is_empty:
            return outline.document(metadata, _page_title(root))
    raise EmptyDocument("The page holds no text.")


def add_fragment(fragment: str, outline: OutlineBuilder) -> None:
    """Add the text of an HTML block that stands in Markdown; its author wrote all of it as content."""
    root = _parsed(f"<div>{fragment}</div>")
    if root is not None:
        PageWalk(outline, ALL_PARTS, None).read(root)


def _parsed(text: str) -> "etree._Element | None":
    """The tree's root, or None for a page without any element.

    Raises:
        UnreadableDocument: nested so deeply that the parser would drop what follows.
    """
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    try:
        root = etree.fromstring(text.encode(), parser)
    except etree.XMLSyntaxError as error:
        raise UnreadableDocument("The HTML cannot be parsed.") from error
    if any(entry.level_name == "FATAL" for entry in parser.error_log):
        raise UnreadableDocument("The HTML is nested too deeply to be read whole.")
    return root


def _readings(root: "etree._Element") -> list[tuple["etree._Element", PageParts]]:
    """What to read as content, best first; a later one counts only where all before it hold no text."""
    bodies = root.xpath("body")
    if not bodies:
        return []
    body = bodies[0]
    readings = [(body, CONTENT_ONLY), (body, NO_NAVIGATION)]
    main = body.xpath(".//main | .//*[@role='main']")
    return [(main[0], CONTENT_ONLY), *readings] if len(main) == 1 else readings


def _metadata(root: "etree._Element") -> Mapping[str, object]:
    found: dict[str, object] = {}
    for url in root.xpath("//link[contains(concat(' ', @rel, ' '), ' canonical ')]/@href")[:1]:
        if _is_web_address(str(url).strip()):
            found["canonical_url"] = str(url).strip()
    lang = str(root.get("lang", "")).strip()
    if 0 < len(lang) <= _MAX_LANG_CHARS and lang.replace("-", "").isalnum():
        found["lang"] = lang
    return MappingProxyType(found)


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc) and len(url) <= _MAX_URL_CHARS


def _page_title(root: "etree._Element") -> str | None:
    for path in ("//meta[@property='og:title']/@content", "//head//title/text()", "//h1//text()"):
        title = " ".join("".join(str(text) for text in root.xpath(path)[:20]).split())
        if title:
            return title
    return None
