"""Markdown to blocks."""

import re
from contextlib import suppress
from datetime import UTC, date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.adapters.extract import Block, ExtractLimits, Format, extract, split
from service.adapters.extract.outline import MAX_PATH_CHARS
from service.errors import CitewellError, EmptyDocument, TooLarge, UnreadableDocument
from tests.extract.texts import all_words, block_texts, markdown

LEVELS = st.integers(1, 6)
ELEMENTS = st.sampled_from(
    [
        "{0}",
        "{0} {1}\n{2}",
        "# {0}",
        "### {0} `{1}`",
        "###### [{0}](u) **{1}**",
        "{0}\n---",
        "- {0}\n- {1}\n  - {2}",
        "1. {0}\n\n   {1}\n2. {2}",
        "| {0} | {1} |\n|---|---|\n| {2} | x |",
        "```\n{0}\n\n{1}\n```",
        "    {0}\n    {1}",
        "> {0}\n{1}",
        "> # {0}\n>\n> {1}",
        "<div>\n<p>{0}</p> <b>{1}</b>\n</div>",
        "<h2>{0}</h2>",
        "{0} <!-- hidden --> {1}<br>{2}",
        "[{0}][ref]\n\n[ref]: https://x.example",
        "---",
        "{0}<sub>x</sub> &amp; {1}",
        "```\n{0} never closed",
    ]
)

# fmt: off
MARKS = st.sampled_from([
    "- ", "1. ", "> ", "\t", "    ", "\n", "\n\n", "# ", "```\n", "<div>", "</p>", "<!--", "-->", "[a]: x\n",
    "[a]", "`", "w ", "---", "---\n", "a: b\n", "|", "\\", "<script>", "&amp;", "[x] ", "\0", "\ud7ff", "漢",
])
# fmt: on


def numbered(elements: list[str]) -> tuple[str, list[str]]:
    """A document of the elements with a word of its own in every place, and these words."""
    parts, expected = [], []
    for number, element in enumerate(elements):
        mine = [f"word{number}x{place}" for place in range(3)]
        expected += [word for place, word in enumerate(mine) if f"{{{place}}}" in element]
        parts.append(element.format(*mine))
    return "\n\n".join([*parts, "the end"]), expected


@settings(deadline=None, max_examples=200)
@given(st.lists(ELEMENTS, min_size=1, max_size=12))
def test_every_word_is_in_a_block_a_heading_or_the_title(elements: list[str]) -> None:
    """C2: no word of a paragraph, heading, list, table, quote, code or HTML block is lost, nor its order."""
    source, expected = numbered(elements)
    document = markdown(source)
    everything = " ".join([document.title or "", *(f"{b.heading or ''} {b.text}" for b in document.blocks)])
    assert [word for word in expected if word not in everything] == []
    texts = "\n".join(block_texts(document))
    places = [texts.find(word) for word in expected if word in texts]
    assert places == sorted(places)


@settings(deadline=None, max_examples=300)
@given(st.lists(MARKS, max_size=60))
def test_any_markdown_gives_passages_or_a_plain_error(marks: list[str]) -> None:
    """C21: no Markdown makes extraction fail in another way than its own errors."""
    with suppress(CitewellError):
        assert split(markdown("".join(marks)).blocks)


def test_the_first_h1_is_the_title_and_in_no_path() -> None:
    """C2: "# Title" names the document; sections below have paths without it, text before them has none."""
    document = markdown(
        "# SL45 manual\n\nIntro.\n\n## Installation\n\nA.\n\n### Sill\n\nB.\n\n#### Drainage\n\nC."
        "\n\n## Care\n\nD."
    )
    assert document.title == "SL45 manual"
    assert document.blocks == (
        Block(None, "Intro."),
        Block("Installation", "A."),
        Block("Installation > Sill", "B."),
        Block("Installation > Sill > Drainage", "C."),
        Block("Care", "D."),
    )


def test_a_later_h1_is_a_section() -> None:
    """Only a first heading of level 1 is the title; without one there is no title."""
    document = markdown("## Before\n\nA.\n\n# Later\n\nB.")
    assert document.title is None
    assert document.blocks == (Block("Before", "A."), Block("Later", "B."))


def test_headings_are_plain_words() -> None:
    """A heading's markup, link targets and anchor are no part of its path."""
    document = markdown("## The **`NW-4`** [sill](https://x.example) &amp; *glass* {#sill}\n\nText.")
    assert document.blocks == (Block("The NW-4 sill & glass", "Text."),)


def test_a_heading_with_nothing_below_it_is_text() -> None:
    """C2: a heading that would be in no path becomes a block under the headings above it."""
    document = markdown("## Contact\n\n### Phone\n\n### Mail\n\na@x.example\n\n## Call 555-0100")
    assert document.blocks == (
        Block("Contact", "Phone"),
        Block("Contact > Mail", "a@x.example"),
        Block(None, "Call 555-0100"),
    )


def test_a_heading_path_has_a_bounded_length() -> None:
    """A paragraph dressed as a heading is shortened in paths, cut between words, and kept whole as text."""
    long = " ".join(f"word{number}" for number in range(200))
    document = markdown("\n\n".join(f"{'#' * level} {long}" for level in range(2, 7)) + "\n\nText.")
    assert all(len(block.heading or "") <= MAX_PATH_CHARS for block in document.blocks)
    assert document.blocks[0].heading is not None
    assert document.blocks[0].heading.endswith("…")
    assert set(long.split()) <= set(document.blocks[0].text.split())


def test_source_is_kept_as_written() -> None:
    """C2: tables keep their cells, lists their items and code its text, each as one block."""
    parts = [
        "| Size | Weight |\n|------|--------|\n| 1250 | 64 kg |",
        "- one\n  - two\n\n  three\n- four",
        "```python\nif a < b:\n\n    print('&amp;', x[0][1])\n```",
        "    indented <b>code</b>",
        "> quoted\n> text",
        "Vec<String>, <name> and `<b>` stay.",
    ]
    assert block_texts(markdown("\n\n".join(parts))) == [*parts[:3], parts[3], *parts[4:]]


def test_hidden_html_is_dropped_and_entities_are_characters() -> None:
    """Comments, scripts and inline tags go; an entity that would make a tag stays one."""
    document = markdown(
        "H<sub>2</sub>O &amp; R&#38;D<br>next <!-- secret --> x <script>bad()</script> &lt;b&gt; `&amp;`\n\n"
        "<!-- a whole\n\nhidden block -->\n\n<style>p { color: red }</style>\n\nend"
    )
    assert block_texts(document) == ["H2O & R&D next  x  &lt;b&gt; `&amp;`", "end"]


def test_html_blocks_give_text_and_headings() -> None:
    """A heading in an HTML block is a heading; Markdown between tags is Markdown."""
    document = markdown(
        "<h1 align='center'>Title</h1>\n\n<details>\n<summary>Short</summary>\n\n**inner**\n\n</details>\n\n"
        "<h2>Sizes</h2>\n<table><tr><td>1250</td><td>64 kg</td></tr></table>"
    )
    assert document.title == "Title"
    assert document.blocks == (Block(None, "Short"), Block(None, "**inner**"), Block("Sizes", "1250 | 64 kg"))


def test_reference_links_become_inline_links() -> None:
    """C2: a stub written with a reference is recognised as a stub."""
    document = markdown(
        "Text.\n\n## Files\n\n[Datasheet][1], [Manual][], [DWG]\n\n[1]: a.pdf\n[manual]: b.pdf\n[dwg]: <c.dwg>"
    )
    assert document.blocks[-1].text == "[Datasheet](a.pdf), [Manual](b.pdf), [DWG](c.dwg)"
    assert [passage.scorable for passage in split(document.blocks)] == [True, False]


def test_front_matter_is_metadata_and_no_text() -> None:
    """YAML front matter becomes metadata with dates as YAML reads them, and leaves the text."""
    document = markdown(
        "---\ntitle: SL45\nversion: '2024-05'\nfetched: 2024-05-06\nat: 2024-05-06T10:12:00Z\nlive: true\n"
        'terms: [a, {b: 1}]\n1: one\nodd: "a\\x07b"\n---\nText.'
    )
    assert dict(document.metadata) == {
        "title": "SL45",
        "version": "2024-05",
        "fetched": date(2024, 5, 6),
        "at": datetime(2024, 5, 6, 10, 12, tzinfo=UTC),
        "live": True,
        "terms": ["a", {"b": 1}],
        "1": "one",
        "odd": "a b",
    }
    assert document.blocks == (Block(None, "Text."),)


def test_the_title_comes_from_the_h1_before_the_front_matter() -> None:
    """The front matter's title counts where the text has none of its own."""
    assert markdown("---\ntitle: Short\n---\n# Long title\n\nText.").title == "Long title"
    assert markdown("---\ntitle: Short\n---\nText.").title == "Short"
    assert markdown("---\ntitle: 5\n---\nText.").title is None


@pytest.mark.parametrize(
    "source",
    [
        "---\n\nText here: yes.\n\nMore words\n\n---\n\nend",
        "---\nnever closed: x\n\nend",
        "----- end",
        "+++\na = 1\n+++\nend",
    ],
)
def test_a_thematic_break_is_no_front_matter(source: str) -> None:
    """C2: what is not front matter loses no word."""
    assert set(re.findall(r"\w+", source)) <= all_words(markdown(source))


@pytest.mark.parametrize(
    "values", ["a: b: c", "a: [1", "a: !!python/object:os.system x", "a: 2024-13-45", "a: b\n- c", "a: *x"]
)
def test_broken_front_matter_is_refused(values: str) -> None:
    """Front matter that is not valid YAML is an error: its source would be lost in silence."""
    with pytest.raises(UnreadableDocument, match="front matter"):
        markdown(f"---\n{values}\n---\nText.")


@pytest.mark.parametrize(
    "values",
    [
        "a0: &a0 [x, x]\n" + "\n".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)),
        "a: &a [*a]",
        "a: " + "[" * 50 + "]" * 50,
        "a: " + "x" * 70_000,
    ],
    ids=["aliases", "cycle", "depth", "length"],
)
def test_a_front_matter_bomb_is_refused(values: str) -> None:
    """C21: aliases that double, nest in themselves or go deep are an error, and take no memory."""
    with pytest.raises(TooLarge, match="front matter"):
        markdown(f"---\n{values}\n---\nText.")


@pytest.mark.parametrize(
    "source", ["", " \n\t\n", "# Title only", "---\ntitle: x\n---\n", "<!-- hidden -->", "***", "[a]: x"]
)
def test_a_document_without_text_is_empty(source: str) -> None:
    """A title, a comment, a break or a definition alone is nothing to store."""
    with pytest.raises(EmptyDocument):
        markdown(source)


@pytest.mark.parametrize(
    "source",
    [
        ">" * 10_000 + " deep",
        "- " * 10_000 + "deep",
        "".join("  " * level + "- deep\n" for level in range(1_000)),
        "*" * 10_000 + " deep",
        "[" * 10_000 + " deep",
        "# " + "[" * 100 + " deep",
        "`" * 10_000 + " deep",
        "p " + "<!-- " * 20_000 + "deep",
        "p " + "<b " * 20_000 + "deep",
        "[a]: x\n\n" + "[a] " * 20_000 + "deep",
        "word " * 1_000_000 + "deep",
    ],
    ids=[
        "quotes",
        "lists",
        "indented",
        "stars",
        "brackets",
        "heading",
        "ticks",
        "comments",
        "tags",
        "refs",
        "one line",
    ],
)
def test_hostile_markdown_keeps_its_text(source: str) -> None:
    """C21: nesting of 10,000 levels, unclosed marks and 5 MB on one line are read, the text after them too."""
    document = markdown(source + "\n\nparagraph after")
    assert {"deep", "after"} <= all_words(document)


def test_a_reference_bomb_does_not_grow() -> None:
    """C21: one long target, referred to often, at most doubles the text."""
    source = f"[a]: https://{'x' * 1_900}\n\n" + "[a] " * 100_000
    assert sum(map(len, block_texts(markdown(source)))) < 2.5 * len(source)


def test_too_many_elements_are_refused() -> None:
    """TooLarge: the blocks of a document are bounded."""
    with pytest.raises(TooLarge):
        extract(b"a\n\n" * 1_000, Format.MARKDOWN, ExtractLimits(blocks=100))


def test_a_document_over_its_time_is_refused() -> None:
    """TooLarge: Markdown is bounded by processor time too."""
    with pytest.raises(TooLarge, match="takes more than"):
        extract(b"- a\n" * 20_000, Format.MARKDOWN, ExtractLimits(cpu_seconds=0.0))


def test_a_document_over_its_bytes_is_refused() -> None:
    """TooLarge: the size is checked before anything else."""
    with pytest.raises(TooLarge, match="11 bytes"):
        extract(b"hello world", Format.MARKDOWN, ExtractLimits(text_bytes=10))


def test_a_headline_that_is_not_the_title_is_not_lost() -> None:
    """C2: where the front matter states another title, the words of the headline are found in a block."""
    document = markdown("---\ntitle: Foo manual\n---\n# Uniqhone heading\n\nText")
    assert "Uniqhone heading" in block_texts(document)
    same = markdown("---\ntitle: Foo  Manual\n---\n# Foo manual\n\nText")
    assert block_texts(same) == ["Text"]
