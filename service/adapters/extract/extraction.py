"""The one door to extraction: bytes and their format in, title and blocks out."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from service.adapters.extract.document import DEFAULT_LIMITS, ExtractedDocument, ExtractLimits, Format
from service.adapters.extract.markdown import extract_markdown
from service.adapters.extract.pdf import extract_pdf
from service.adapters.extract.plain_text import extract_plain_text
from service.adapters.extract.web_page import extract_web_page
from service.errors import TooLarge

_Extractor = Callable[[bytes, ExtractLimits], ExtractedDocument]

_EXTRACTORS: Mapping[Format, _Extractor] = MappingProxyType(
    {
        Format.MARKDOWN: extract_markdown,
        Format.HTML: extract_web_page,
        Format.TEXT: extract_plain_text,
        Format.PDF: extract_pdf,
    }
)


def extract(data: bytes, format: Format, limits: ExtractLimits = DEFAULT_LIMITS) -> ExtractedDocument:
    """The text of a document, as blocks under their heading paths.

    Synchronous processor work without shared state: call it in a thread. What it returns holds no control
    character but tab and newline, and no lone surrogate.

    Raises:
        UnreadableDocument: damaged, truncated, encrypted or of another format than stated.
        EmptyDocument: no text at all (scripts only, scanned pages, blank).
        TooLarge: over one of `limits`.
        InvalidText: the bytes are text in no encoding that could be made out.
    """
    allowed = limits.pdf_bytes if format is Format.PDF else limits.text_bytes
    if len(data) > allowed:
        raise TooLarge(f"The document has {len(data)} bytes; at most {allowed} are read.")
    return _EXTRACTORS[format](data, limits)
