"""Texts to extract and split: words of many scripts, and ways to look at the outcome."""

import re
from collections.abc import Sequence

from hypothesis import strategies as st

from service.adapters.extract import Block, ExtractedDocument, Format, extract
from service.adapters.extract.cutting import WORD
from service.model import PassageText

LATIN = st.text(alphabet="abcdefghijklmnopqrstuvwxyzABCÄÖÜéñß", min_size=1, max_size=14)
CODES = st.sampled_from(
    ["NW-SL45/2", "SL4500", "3.14", "don't", "foo@bar.example", "--verbose", "(U=1.6)", "C++"]
)
LINKS = st.sampled_from(["https://x.example/a/b?c=d&e=f#g", "[label](target.pdf)", "`code`", "**bold**"])
OTHER_SCRIPTS = st.sampled_from(
    [
        "漢字を使う。",
        "面板沿单一轨道",
        "แผงเลื่อน",
        "الألواح",
        "הלוחות,",
        "Панели",
        "패널은",
        "👩‍👩‍👧",
        "e\u0301",
    ]
)
WORDS = st.one_of(LATIN, LATIN.map(lambda word: word + "."), CODES, LINKS, OTHER_SCRIPTS)
GAPS = st.sampled_from([" ", " ", " ", " ", "  ", "\n", "\n\n", "\t", " \n ", "\n    ", "\u00a0", "\u3000"])
TEXTS = st.lists(st.tuples(WORDS, GAPS), min_size=1, max_size=120).map(
    lambda pairs: "".join(word + gap for word, gap in pairs)
)
HEADINGS = st.sampled_from([None, "Sill", "Sill > Drainage", "Glass"])
BLOCKS = st.lists(st.builds(Block, HEADINGS, TEXTS), min_size=1, max_size=8)


def words(texts: Sequence[str]) -> list[str]:
    """The words of the texts in order, by the rule that cutting keeps."""
    return [word for text in texts for word in WORD.findall(text)]


def signs(texts: Sequence[str]) -> str:
    """All that is not white space, in order."""
    return "".join("".join(text.split()) for text in texts)


def block_texts(document: ExtractedDocument) -> list[str]:
    """The document's block texts in order."""
    return [block.text for block in document.blocks]


def passage_texts(passages: Sequence[PassageText]) -> list[str]:
    """The passages' texts in order."""
    return [passage.text for passage in passages]


def all_words(document: ExtractedDocument) -> set[str]:
    """Every word that the title, a heading path or a block holds."""
    headings = [block.heading or "" for block in document.blocks]
    return set(re.findall(r"\w+", " ".join([document.title or "", *headings, *block_texts(document)])))


def markdown(source: str) -> ExtractedDocument:
    """The document of a Markdown source."""
    return extract(source.encode(), Format.MARKDOWN)


def web_page(source: str) -> ExtractedDocument:
    """The document of an HTML source."""
    return extract(source.encode(), Format.HTML)
