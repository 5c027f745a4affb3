"""Bytes to clean text: byte-order marks, stated encodings, guessed encodings, control characters."""

import codecs
import re

from charset_normalizer import CharsetMatch, from_bytes
from charset_normalizer.constant import IANA_SUPPORTED
from charset_normalizer.utils import iana_name

from service.errors import InvalidText, UnreadableDocument

# UTF-32 first: its little-endian mark begins with UTF-16's.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf_8"),
    (codecs.BOM_UTF32_LE, "utf_32_le"),
    (codecs.BOM_UTF32_BE, "utf_32_be"),
    (codecs.BOM_UTF16_LE, "utf_16_le"),
    (codecs.BOM_UTF16_BE, "utf_16_be"),
)

# What the web and office tools write. Unrestricted guessing takes short Latin texts for EBCDIC.
_GUESSABLE = [
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258",
    "iso8859_2", "iso8859_5", "iso8859_7", "koi8_r", "cp932", "euc_jp", "iso2022_jp",
    "gb18030", "big5", "cp949", "utf_16_le", "utf_16_be",
]  # fmt: skip

# As in the WHATWG Encoding Standard: pages that say Latin-1 or ASCII are written in Windows-1252.
_READ_AS = {
    "latin_1": "cp1252",
    "ascii": "cp1252",
    "iso8859_9": "cp1254",
    "shift_jis": "cp932",
    "gb2312": "gb18030",
}

_SIGNATURES = (
    (b"%PDF-", "a PDF file"),
    (b"PK\x03\x04", "a ZIP or Office file"),
    (b"\x1f\x8b", "a gzip file"),
    (b"\xd0\xcf\x11\xe0", "an old Office file"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x7fELF", "a program"),
)

_LINE_BREAK = re.compile("\r\n?|[\v\x85\u2028]")
_PARAGRAPH_BREAK = re.compile("[\f\u2029]")
# Controls, lone surrogates and noncharacters separate words; a soft hyphen or a zero-width mark does not.
_UNKEEPABLE = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_INVISIBLE = re.compile("[\xad\ufeff]")
# One search tells that most texts need none of the four.
_UNCLEAN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_WELL_FORMED_MULTIBYTE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)


def clean(text: str) -> str:
    """`text` with newlines as line feeds and without control characters, lone surrogates and soft hyphens."""
    if not _UNCLEAN.search(text):
        return text
    text = _LINE_BREAK.sub("\n", text)
    text = _PARAGRAPH_BREAK.sub("\n\n", text)
    return _INVISIBLE.sub("", _UNKEEPABLE.sub(" ", text))


def decode(data: bytes, stated: str | None = None) -> str:
    """The clean text of `data`: by byte-order mark, `stated` encoding, UTF-8, or a guess, in this order.

    Raises:
        UnreadableDocument: the bytes begin like a well-known binary file.
        InvalidText: no encoding fits, or damaged UTF-8, or bytes that their own mark contradicts.
    """
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            raise UnreadableDocument(f"This is {kind}, not text.")
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return clean(_strictly(data[len(mark) :], encoding))
    if stated is not None and (known := _encoding_named(stated)) is not None:
        return clean(_strictly(data, known))
    return clean(_unmarked(data))


def _strictly(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InvalidText(f"The text is not valid {encoding} at byte {error.start}.") from error


def _encoding_named(label: str) -> str | None:
    """The codec for an encoding label as pages write it, or None for one that is unknown or not for text."""
    try:
        name = iana_name(label.strip())
    except ValueError:
        return None
    if name not in IANA_SUPPORTED or name.startswith(("utf_7", "utf_16", "utf_32")):
        return None  # no encoding of text; or one in which the statement could not be read as ASCII
    return _READ_AS.get(name, name)


def _unmarked(data: bytes) -> str:
    has_many_nuls = data.count(0) * 5 > len(data)
    if not has_many_nuls:
        try:
            return data.decode("utf_8")
        except UnicodeDecodeError as error:
            if _is_damaged_utf8(data):
                raise InvalidText(f"The text is not valid UTF-8 at byte {error.start}.") from error
    guess = _guess(data)
    if guess is None:
        raise InvalidText("The bytes are not text in any encoding that could be recognised.")
    return _strictly(data, guess)


def _is_damaged_utf8(data: bytes) -> bool:
    """Whether well-formed multi-byte characters outnumber the errors: then no other encoding may be tried."""
    errors = data.decode("utf_8", errors="replace").count("\ufffd")
    return len(_WELL_FORMED_MULTIBYTE.findall(data)) > 2 * errors


def _guess(data: bytes) -> str | None:
    """The likeliest encoding; Windows-1252 where it reads as well as any other."""
    matches = list(from_bytes(data, cp_isolation=_GUESSABLE))
    if not matches:
        return None

    def merit(match: CharsetMatch) -> tuple[float, float, bool]:
        return (-match.chaos, match.coherence, match.encoding == "cp1252")

    best = max(matches, key=merit)
    return best.encoding
