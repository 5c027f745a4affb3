"""HTML to blocks."""

import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.adapters.extract import Block, ExtractLimits, Format, extract, split
from service.errors import CitewellError, EmptyDocument, TooLarge, UnreadableDocument
from tests.extract.texts import all_words, block_texts, web_page

# fmt: off
TAGS = st.sampled_from([
    "p", "div", "span", "b", "a", "ul", "ol", "li", "table", "tr", "td", "th", "pre", "h1", "h2", "h3", "br",
    "hr", "section", "article", "blockquote", "dl", "dt", "dd", "figure", "figcaption", "details", "summary",
    "unknown-tag",
])
# fmt: on
PIECES = st.lists(
    st.tuples(st.sampled_from(["open", "close", "text", "text"]), TAGS), min_size=1, max_size=60
)


def tag_soup(pieces: list[tuple[str, str]]) -> tuple[str, list[str]]:
    """A page of unbalanced tags with numbered words between them, and these words."""
    parts, expected = [], []
    for number, (what, tag) in enumerate(pieces):
        if what == "text":
            expected.append(f"word{number}x")
            parts.append(f" word{number}x ")
        else:
            parts.append(f"<{tag} href='u'>" if what == "open" else f"</{tag}>")
    return f"<html><body>{''.join(parts)}<p>end", expected


@settings(deadline=None, max_examples=300)
@given(PIECES)
def test_every_visible_word_is_kept_in_order(pieces: list[tuple[str, str]]) -> None:
    """C2: no word of any tag soup is lost or moved: each is in a block, a heading path or the title."""
    source, expected = tag_soup(pieces)
    document = web_page(source)
    assert set(expected) - all_words(document) == set()
    in_blocks = [word for text in block_texts(document) for word in re.findall(r"word\d+x", text)]
    assert in_blocks == sorted(in_blocks, key=expected.index)


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet="<>/=\"'&;!-[]abp hrefd?\0\n#x1", max_size=200))
def test_any_html_gives_blocks_or_a_plain_error(source: str) -> None:
    """C21: no bytes make extraction fail in another way than its own errors."""
    with suppress(CitewellError):
        assert split(web_page(source).blocks)


def test_main_content_with_its_headings() -> None:
    """C2: headings become paths; navigation, headers, footers, asides and forms are dropped."""
    document = web_page(
        """<html lang="en-GB"><head><title>SL45 | Site</title>
        <link rel="canonical" href="https://x.example/sl45"></head>
        <body><nav>Menu</nav><header>Logo</header><aside>Related</aside>
        <main><header><h1>SL45 wall</h1></header><p>Intro&nbsp;text &amp; more.</p>
        <h2>Installation</h2><p>Level the <b>sill</b>.</p><h3>Sill</h3><p>Fix it.</p>
        <form><input value="x"><label>Mail</label><button>Send</button></form></main>
        <footer>Imprint</footer></body></html>"""
    )
    assert document.title == "SL45 wall"
    assert dict(document.metadata) == {"canonical_url": "https://x.example/sl45", "lang": "en-GB"}
    assert document.blocks == (
        Block(None, "Intro text & more."),
        Block("Installation", "Level the sill."),
        Block("Installation > Sill", "Fix it."),
    )


@pytest.mark.parametrize(
    "hidden",
    [
        "<p hidden>secret</p>",
        '<p style="color: red; DISPLAY : none">secret</p>',
        '<div style="visibility:hidden"><p>secret</p></div>',
        '<span aria-hidden="true">secret</span>',
        "<template>secret</template>",
        "<noscript>secret</noscript>",
        "<script>secret</script>",
        "<style>secret</style>",
        "<dialog>secret</dialog>",
        "<!-- secret -->",
        "<select><option>secret</option></select>",
        "<textarea>secret</textarea>",
        "<svg><text>secret</text></svg>",
        '<div role="navigation">secret</div>',
    ],
)
def test_hidden_text_is_dropped(hidden: str) -> None:
    """What a reader does not see is no text, and what follows it is kept."""
    assert block_texts(web_page(f"<p>before</p>{hidden}<p>after</p>")) == ["before", "after"]


def test_tables_lists_and_code() -> None:
    """C2: a row is a line with its cells, an item a line with its mark, code keeps its lines and blanks."""
    document = web_page(
        "<table><caption>Sizes</caption><tr><th>Size<th>Weight<tr><td><p>1250</p><td>64<br>kg</table>"
        "<ul><li>one<li>two<ul><li>inner</ul></ul><ol><li>first<li>second</ol>"
        "<dl><dt>Term<dd>Meaning</dl><pre>if a:\n    b  c\n\nd</pre>line<br>next"
    )
    assert block_texts(document) == [
        "Sizes\nSize | Weight\n1250 | 64 kg",
        "- one\n- two\n  - inner",
        "1. first\n2. second",
        "Term\nMeaning",
        "if a:\n    b  c\n\nd",
        "line\nnext",
    ]


def test_an_unclosed_heading_ends_with_the_next_block() -> None:
    """A heading without an end does not take the rest of the page as its words."""
    document = web_page("<h1>Title<p>one</p><h2><div>Sill</div><p>two<p>three")
    assert document.title == "Title"
    assert document.blocks == (Block(None, "one"), Block("Sill", "two"), Block("Sill", "three"))


def test_links_are_labels_except_in_a_stub() -> None:
    """C2: a block that only links is Markdown links with absolute targets, and its passage is no score."""
    document = web_page(
        '<head><link rel=canonical href="https://x.example/p/sl45"></head><p>See <a href="t.html">the table</a>'
        ' for torque values.</p><h2>Files</h2><p><a href="/d/a (1).pdf">Data[sheet]</a> (PDF, 2 MB)</p><p>'
        '<a href="#top">Back to top of the page</a></p>'
    )
    assert block_texts(document) == [
        "See the table for torque values.",
        "[Data(sheet)](https://x.example/d/a%20%281%29.pdf) (PDF, 2 MB)",
        "Back to top of the page",
    ]
    stubs = split([block for block in document.blocks if "](" in block.text])
    assert [passage.scorable for passage in stubs] == [False]


@pytest.mark.parametrize(
    ("page", "title"),
    [
        ("<title>Head</title><h1>First</h1><p>x", "First"),
        ("<title>Head</title><h2>Second</h2><p>x", "Head"),
        ('<title>Head</title><meta property="og:title" content="Shared"><p>x', "Shared"),
        ("<header><h1>Banner</h1></header><p>x", "Banner"),
        ("<p>x", None),
    ],
)
def test_the_title_is_the_best_there_is(page: str, title: str | None) -> None:
    """A first h1, else og:title, else the head's title, else any h1."""
    assert web_page(page).title == title


@pytest.mark.parametrize(
    "page",
    [
        "<form id=aspnet><h1>T</h1><p>all of it</p></form>",
        "<form><p>all of it</p></form>",
        "<header><p>all of it</p></header>",
        "<main></main><p>all of it</p>",
        "<article>all of it</article><nav>x</nav>",
        "<article>all</article><article>of it</article>",
        "all of it",
        '<body style="visibility:hidden">all of it',
    ],
)
def test_a_page_with_text_in_odd_places_is_read(page: str) -> None:
    """C2: boilerplate tags are content where nothing else is."""
    assert {"all", "of", "it"} <= all_words(web_page(page))


@pytest.mark.parametrize(
    "page",
    [
        "",
        "   ",
        "<title>T</title><script>document.write('hello')</script>",
        "<html><head><title>T</title></head><body><noscript>Enable scripts</noscript></body></html>",
        "<!-- only -->",
        "<frameset><frame src=a></frameset>",
        "<h1>Title only</h1>",
        "<nav>Menu</nav>",
    ],
)
def test_a_page_without_text_is_empty(page: str) -> None:
    """HTML with scripts only, a title only or navigation only is an empty document."""
    with pytest.raises(EmptyDocument):
        web_page(page)


@pytest.mark.parametrize("tag", ["div", "b", "span", "blockquote"])
def test_nesting_is_read_or_refused_but_never_cut(tag: str) -> None:
    """C21: 1,000 levels are read, 10,000 are an error; no depth loses the text after it in silence."""
    page = "<p>before</p>{0}deep{1}<p>after</p>"
    kept = all_words(web_page(page.format(f"<{tag}>" * 1_000, f"</{tag}>" * 1_000)))
    assert {"before", "deep", "after"} <= kept
    with pytest.raises(UnreadableDocument, match="nested"):
        web_page(page.format(f"<{tag}>" * 10_000, f"</{tag}>" * 10_000))


@pytest.mark.parametrize(
    "page",
    [
        "<p>" + "word " * 1_000_000 + "end",
        "<p " + "a=b " * 100_000 + ">end",
        "<" * 100_000 + "<p>end",
        "<ul>" + "<li>x" * 50_000 + "<li>end",
        "<table><tr>" + "<td>x" * 50_000 + "<td>end",
        "x<br>" * 50_000 + "end",
        "<a href=u>x</a> " * 50_000 + "end",
        "<header>x</header>" * 20_000 + "end",
        "&amp;" * 100_000 + " end",
    ],
    ids=["one line", "attributes", "angles", "items", "cells", "breaks", "links", "headers", "entities"],
)
def test_hostile_pages_keep_their_text(page: str) -> None:
    """C21: long lines, unclosed tags and floods of elements are read to the end."""
    assert "end" in all_words(web_page(page))


def test_too_many_blocks_are_refused() -> None:
    """TooLarge: the blocks of a page are bounded."""
    with pytest.raises(TooLarge):
        extract(b"<p>x" * 1_000, Format.HTML, ExtractLimits(blocks=100))


@pytest.mark.parametrize(
    "url", ["/relative", "javascript:alert(1)", "https://", "http://[", "https://x/" + "y" * 3_000]
)
def test_only_a_web_address_is_a_canonical_url(url: str) -> None:
    """The metadata holds no relative, script, broken or endless address."""
    assert dict(web_page(f'<link rel="canonical" href="{url}"><p>x').metadata) == {}


@pytest.mark.parametrize("inside", ["<div><p>end", "<p>end</p>", "<ul><li>end</ul>"])
def test_a_headline_that_holds_the_page(inside: str) -> None:
    """C2: a page inside a first headline that is never closed is not a title without a page."""
    assert "end" in all_words(web_page(f"<html><body><h1>{inside}"))
