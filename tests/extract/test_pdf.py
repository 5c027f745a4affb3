"""PDF to blocks."""

import random
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.adapters.extract import Block, ExtractedDocument, ExtractLimits, Format, extract, split
from service.adapters.extract.document import MIB
from service.adapters.extract.pdf_text import rejoined_pages
from service.errors import CitewellError, EmptyDocument, TooLarge, UnreadableDocument
from tests.extract import pdfs
from tests.extract.texts import block_texts

MANUAL = pdfs.manual()


def pdf(data: bytes, limits: ExtractLimits | None = None) -> ExtractedDocument:
    """The document of a PDF."""
    return extract(data, Format.PDF, limits or ExtractLimits())


def test_text_title_and_outline() -> None:
    """C2: the metadata's title, the outline as heading paths, the pages in order, line ends rejoined."""
    document = pdf(MANUAL)
    assert document.title == "SL45 manual"
    assert document.blocks == (
        Block(None, "Before any heading."),
        Block(
            "Installation",
            "Check the installation of the single-track doors. A single-track door is NW-SL45.",
        ),
        Block("Installation > Sill", "The sill drains outwards."),
        Block("Installation > Sill", "Text of page 2."),
    )


def test_without_metadata_there_is_no_title() -> None:
    """A PDF without a title has none, whatever its first line says."""
    document = pdf(pdfs.drawn(pdfs.HELLO))
    assert (document.title, block_texts(document), dict(document.metadata)) == (None, ["Hello world"], {})


def test_every_page_is_read() -> None:
    """C2: the text of each page, in page order."""
    texts = block_texts(pdf(pdfs.manual(pages=30)))
    assert [text for text in texts if text.startswith("Text of")] == [
        f"Text of page {n}." for n in range(2, 31)
    ]


@pytest.mark.parametrize(
    ("lines", "joined"),
    [
        ("instal-\nlation", "installation"),
        ("instal\xad\nlation", "installation"),
        ("instal\u2010 \n  lation", "installation"),
        ("NW-\nSL45", "NW-SL45"),
        ("2020-\n2023", "2020-2023"),
        ("X-\nray", "X-ray"),
        ("well-known and well-\nknown", "well-known and well-known"),
        ("a -\nb", "a -\nb"),
        ("one\ntwo", "one\ntwo"),
        ("a-\nb-\nc", "abc"),
    ],
)
def test_line_end_hyphens(lines: str, joined: str) -> None:
    """A cut word is whole again; names, numbers and compounds written elsewhere keep their hyphen."""
    assert rejoined_pages([lines]) == [joined]


@given(st.lists(st.text(alphabet="abA1-\n \xad\0", max_size=30), max_size=4))
def test_rejoining_loses_no_sign_but_hyphens(pages: list[str]) -> None:
    """C2: letters and digits stay in order on their page."""
    for before, after in zip(pages, rejoined_pages(pages), strict=True):
        kept = [sign for sign in before if sign.isalnum()]
        assert [sign for sign in after if sign.isalnum()] == kept


@pytest.mark.parametrize("end", [0, 5, 100, len(MANUAL) // 2, len(MANUAL) - 200, len(MANUAL) - 10])
def test_a_truncated_file_is_unreadable(end: int) -> None:
    """A PDF cut anywhere is an error with a plain reason, never a part of its text."""
    with pytest.raises(UnreadableDocument):
        pdf(MANUAL[:end])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a PDF"),
        (b"hello world", "not a PDF"),
        (b"%PDF-1.7\nhello", "ends early"),
        (b"%PDF-1.7\n" + random.Random(1).randbytes(3_000) + b"%%EOF", "damaged"),  # noqa: S311 - seeded bytes
        (pdfs.encrypted("secret"), "encrypted"),
    ],
    ids=["empty", "text", "header only", "noise", "encrypted"],
)
def test_what_cannot_be_read_says_why(data: bytes, reason: str) -> None:
    """UnreadableDocument names the reason in one sentence."""
    with pytest.raises(UnreadableDocument, match=reason):
        pdf(data)


def test_an_empty_password_opens() -> None:
    """A file that only restricts printing or copying is readable, as in any viewer."""
    assert block_texts(pdf(pdfs.encrypted(None))) == ["Secret text."]


def test_a_scan_is_empty() -> None:
    """EmptyDocument: pages without a text layer."""
    with pytest.raises(EmptyDocument, match="text recognition"):
        pdf(pdfs.blank())


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.integers(0, len(MANUAL) - 1), st.integers(0, 255)), min_size=1, max_size=30))
def test_damaged_bytes_give_passages_or_a_plain_error(changes: list[tuple[int, int]]) -> None:
    """C21: no damage makes extraction fail in another way than its own errors."""
    data = bytearray(MANUAL)
    for place, value in changes:
        data[place] = value
    with suppress(CitewellError):
        assert split(pdf(bytes(data)).blocks)


@pytest.mark.parametrize(
    "data",
    [
        pdfs.drawn(pdfs.HELLO + b" " * 100 * MIB),
        pdfs.drawn(b"/X0 Do " + pdfs.HELLO, forms=[pdfs.form(pdfs.HELLO + b" " * 10 * MIB)], pages=60),
    ],
    ids=["size", "time"],
)
def test_a_decompression_bomb_is_refused_in_bounded_memory(data: bytes) -> None:
    """C21: kilobytes that unfold to gigabytes are TooLarge, and memory stays bounded."""
    assert len(data) < 200_000
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            pdf(data, ExtractLimits(cpu_seconds=1.0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * MIB


def test_decompressed_streams_do_not_pile_up() -> None:
    """C21: 300 MiB of streams, each within its bound, is read with a few in memory at a time."""
    forms = [pdfs.form(b" " * 10 * MIB) for _ in range(30)]
    draws = b"".join(b"/X%d Do " % number for number in range(30))
    tracemalloc.start()
    try:
        assert block_texts(pdf(pdfs.drawn(draws + pdfs.HELLO, forms=forms))) == ["Hello world"]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100 * MIB


def test_a_stream_is_bounded() -> None:
    """TooLarge: a stream that unfolds beyond `pdf_stream_bytes`, and not one within."""
    limits = ExtractLimits(pdf_stream_bytes=MIB)
    assert block_texts(pdf(pdfs.drawn(pdfs.HELLO + b" " * (MIB // 2)), limits)) == ["Hello world"]
    with pytest.raises(TooLarge, match="decompressed"):
        pdf(pdfs.drawn(pdfs.HELLO + b" " * 2 * MIB), limits)


@pytest.mark.parametrize(("depth", "fits"), [(6, True), (7, False)])
def test_nested_forms_are_bounded(depth: int, fits: bool) -> None:  # noqa: FBT001 - a test's parameter
    """C21: each form's operations stay in memory while the next is read, so their depth is bounded."""
    forms = [pdfs.form(b"/X Do", number + 1) for number in range(depth - 1)]
    data = pdfs.drawn(b"/X0 Do", forms=[*forms, pdfs.form(pdfs.HELLO)])
    if fits:
        assert block_texts(pdf(data)) == ["Hello world"]
    else:
        with pytest.raises(TooLarge, match="6 deep"):
            pdf(data)


def test_a_flood_of_drawing_operations_is_refused() -> None:
    """C21: a page of a million operations, or pages of many each, is TooLarge by count or by time."""
    with pytest.raises(TooLarge, match="decompressed"):
        pdf(pdfs.drawn(pdfs.HELLO + b"q Q " * 400_000))
    with pytest.raises(TooLarge, match="takes more than"):
        pdf(pdfs.drawn(pdfs.HELLO + b"q Q " * 20_000, pages=1_000), ExtractLimits(cpu_seconds=0.2))


def test_pages_are_bounded() -> None:
    """TooLarge: more pages than allowed."""
    with pytest.raises(TooLarge, match="30 pages"):
        pdf(pdfs.manual(pages=30), ExtractLimits(pdf_pages=29))


def test_text_is_bounded() -> None:
    """TooLarge: one page repeated a thousand times cannot give more text than allowed."""
    with pytest.raises(TooLarge, match="characters"):
        pdf(pdfs.drawn(pdfs.HELLO, pages=200), ExtractLimits(pdf_text_chars=1_000))


def test_the_file_is_bounded() -> None:
    """TooLarge: the file's size is checked before it is read."""
    with pytest.raises(TooLarge, match="bytes"):
        pdf(MANUAL, ExtractLimits(pdf_bytes=100))


def test_text_in_a_form_is_read() -> None:
    """C2: text that a page draws through a form is text of the page."""
    data = pdfs.drawn(b"/X0 Do", forms=[pdfs.form(b"/X Do", 1), pdfs.form(pdfs.HELLO)])
    assert block_texts(pdf(data)) == ["Hello world"]
