"""Bytes to clean text, in every format that is text."""

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.adapters.extract import Block, ExtractLimits, Format, extract, split
from service.errors import CitewellError, EmptyDocument, InvalidText, TooLarge, UnreadableDocument
from tests.extract.texts import block_texts

GERMAN = "Die Größe der Tür beträgt fünf Meter."
JAPANESE = "パネルは一本の上部レールに沿って一枚ずつ滑ります。"
RUSSIAN = "Панели перемещаются по одной вдоль верхней направляющей."
ENGLISH = "The panel is 5° wide and “quoted” \u2013 nice."


def text_of(data: bytes, format: Format = Format.TEXT) -> str:
    """The extracted text, its blocks on lines of their own."""
    return "\n".join(block_texts(extract(data, format)))


def test_paragraphs_are_blocks() -> None:
    """Plain text has a block a paragraph, no title and no headings."""
    document = extract(b"one\ntwo\n\n \n  three\n", Format.TEXT)
    assert document.blocks == (Block(None, "one\ntwo"), Block(None, "  three"))
    assert (document.title, dict(document.metadata)) == (None, {})


@pytest.mark.parametrize("format", [Format.TEXT, Format.MARKDOWN, Format.HTML])
@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf_8"),
        (codecs.BOM_UTF16_LE, "utf_16_le"),
        (codecs.BOM_UTF16_BE, "utf_16_be"),
        (codecs.BOM_UTF32_LE, "utf_32_le"),
        (codecs.BOM_UTF32_BE, "utf_32_be"),
    ],
)
def test_a_byte_order_mark_decides(mark: bytes, encoding: str, format: Format) -> None:
    """A document with a byte-order mark is read in that encoding, and the mark is no text."""
    assert text_of(mark + JAPANESE.encode(encoding), format) == JAPANESE


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "latin_1"),
        (GERMAN, "cp1252"),
        (ENGLISH, "cp1252"),
        ("naïve", "latin_1"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8_r"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "euc_jp"),
        ("面板沿单一顶部轨道逐一滑动并停放在视线之外。", "gb18030"),
        ("Hello world, this is text.", "utf_16_le"),
        (GERMAN, "utf_16_be"),
    ],
)
def test_an_unmarked_encoding_is_recognised(text: str, encoding: str) -> None:
    """Latin-1, Windows, Japanese, Chinese and UTF-16 text without any mark comes out right."""
    assert text_of(text.encode(encoding)) == text


@pytest.mark.parametrize(
    "head",
    [
        b'<meta charset="{0}">',
        b"<META http-equiv=Content-Type content='text/html; charset={0}'>",
        b'<?xml version="1.0" encoding="{0}"?>',
    ],
)
@pytest.mark.parametrize(
    ("text", "encoding"), [(RUSSIAN, "windows-1251"), (GERMAN, "ISO-8859-1"), (JAPANESE, "Shift_JIS")]
)
def test_a_page_states_its_encoding(head: bytes, text: str, encoding: str) -> None:
    """HTML is read in the encoding that its meta element or XML declaration states."""
    page = head.replace(b"{0}", encoding.encode()) + b"<p>" + text.encode(encoding)
    assert text_of(page, Format.HTML) == text


@pytest.mark.parametrize("stated", ["utf-16", "idna", "unicode_escape", "zip", "x-unknown", "utf-7", "\\"])
def test_a_stated_encoding_that_cannot_be_is_ignored(stated: str) -> None:
    """C21: a page cannot choose a codec that is no encoding of text, or that its own statement rules out."""
    assert text_of(f'<meta charset="{stated}"><p>{GERMAN}'.encode(), Format.HTML) == GERMAN


@pytest.mark.parametrize(
    "data",
    [
        ("El tamaño pequeño. " * 20).encode() + b"\xc3",
        (GERMAN * 5).encode() + b" \xff " + (GERMAN * 5).encode(),
        codecs.BOM_UTF8 + b"\xff\xfe\xfd",
        codecs.BOM_UTF16_LE + b"a\x00\x00\xd8a\x00",
        bytes(range(256)) * 8,
    ],
    ids=["cut character", "stray byte", "false mark", "lone surrogate", "binary"],
)
def test_damaged_text_is_refused(data: bytes) -> None:
    """InvalidText: damaged UTF-8 is not read as some other encoding, and binary data as none."""
    with pytest.raises(InvalidText):
        extract(data, Format.TEXT)


@pytest.mark.parametrize(
    "data", [b"%PDF-1.7\n%", b"PK\x03\x04docx", b"\x1f\x8b\x08", b"\x89PNG\r\n", b"\xff\xd8\xff\xe0"]
)
@pytest.mark.parametrize("format", [Format.TEXT, Format.MARKDOWN, Format.HTML])
def test_a_binary_file_is_named(data: bytes, format: Format) -> None:
    """UnreadableDocument says what kind of file was passed as text."""
    with pytest.raises(UnreadableDocument, match="not text"):
        extract(data, format)


@pytest.mark.parametrize("format", [Format.TEXT, Format.MARKDOWN])
@given(text=st.text(min_size=1))
def test_nothing_harmful_leaves_extraction(format: Format, text: str) -> None:
    """C21: no control character but tab and newline, no lone surrogate, whatever comes in."""
    try:
        document = extract(text.encode("utf-8"), format)
    except CitewellError:
        return
    for part in [document.title or "", *(f"{block.heading or ''}{block.text}" for block in document.blocks)]:
        part.encode("utf-8")
        assert not any(
            sign in "\x7f\x85\xad\u2028\u2029\ufeff" or (sign < " " and sign not in "\t\n") for sign in part
        )


def test_controls_separate_words_and_soft_hyphens_do_not() -> None:
    """NUL and escapes become a blank; a soft hyphen and a zero-width mark vanish from inside a word."""
    assert text_of("a\0b\x1bc instal\xadlation \ufeffx\x7fy".encode()) == "a b c installation x y"


def test_every_newline_is_a_line_feed() -> None:
    """CRLF, CR, NEL and the Unicode separators are newlines; a form feed ends a paragraph."""
    assert block_texts(extract("a\r\nb\rc\x85d\u2028e\u2029f\fg".encode(), Format.TEXT)) == [
        "a\nb\nc\nd\ne",
        "f",
        "g",
    ]
    assert block_texts(extract(b"# T\r\n\r\na\r\nb\r\n", Format.MARKDOWN)) == ["a\nb"]


def test_character_references_cannot_smuggle_controls() -> None:
    """C21: numeric references to NUL, surrogates and controls give no such character."""
    text = text_of(b"<p>a&#0;b&#xD800;c&#x1F;d&#xFFFF;e&#27;f", Format.HTML)
    assert all(sign.isprintable() for sign in text)
    assert [sign for sign in text if sign.isascii() and sign.isalpha()] == list("abcdef")


def test_right_to_left_text_is_kept() -> None:
    """Arabic and Hebrew come out letter by letter in their own order."""
    text = "الألواح تنزلق واحدة تلو الأخرى. הלוחות נעים אחד אחד."
    for format in (Format.TEXT, Format.MARKDOWN, Format.HTML):
        assert text_of(text.encode(), format) == text


def test_a_gap_of_megabytes_is_a_gap() -> None:
    """A passage cannot be huge by blanks, which count as no token."""
    for gap in (b" " * 1_000_000, b"\n" * 1_000_000, b" \n" * 1_000_000, b"\t" * 1_000_000):
        document = extract(b"```\na" + gap + b"b\n```", Format.MARKDOWN)
        assert sum(len(passage.text) for passage in split(document.blocks)) < 100


@pytest.mark.parametrize("data", [b"", b" \n\t ", b"\0\0\0", codecs.BOM_UTF8])
def test_blank_text_is_empty(data: bytes) -> None:
    """White space and controls are nothing to store."""
    with pytest.raises((EmptyDocument, InvalidText)):
        extract(data, Format.TEXT)


@pytest.mark.parametrize("unit", ["x", "word ", "漢字を使う", ".", "👩‍👩‍👧", "แผงเลื่อน", "الألواح "])
def test_a_long_line_is_split(unit: str) -> None:
    """C21: half a megabyte on one line, of any script, is cut without loss."""
    text = unit * (500_000 // len(unit.encode()))
    passages = split(extract(text.encode(), Format.TEXT).blocks)
    assert "".join("".join(passage.text.split()) for passage in passages) == "".join(text.split())


def test_too_many_paragraphs_are_refused() -> None:
    """TooLarge: the blocks of a text are bounded."""
    with pytest.raises(TooLarge):
        extract(b"a\n\n" * 1_000, Format.TEXT, ExtractLimits(blocks=100))
