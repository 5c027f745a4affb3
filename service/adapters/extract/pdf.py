"""PDF to blocks: the text of each page, under the outline's headings where they are found on it."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

from pypdf import PageObject, PdfReader, apply_configuration
from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError
from pypdf.generic import DictionaryObject, EncodedStreamObject, IndirectObject, NullObject, PdfObject

from service.adapters.extract.clock import Clock
from service.adapters.extract.document import NO_METADATA, ExtractedDocument, ExtractLimits
from service.adapters.extract.outline import OutlineBuilder
from service.adapters.extract.pdf_outline import DAMAGE, add_page, headings_by_page
from service.adapters.extract.pdf_text import rejoined_pages
from service.errors import EmptyDocument, TooLarge, UnreadableDocument

_HEADER_WITHIN = 1024
_END_WITHIN = 2048
_DECODED_STREAMS_KEPT = 4

# The operations of a form stay in memory while the forms it draws are read. A token takes about 130 bytes,
# so these two bound what a page can take, far above what drawings need.
_MAX_TOKENS_PER_STREAM = 750_000
_MAX_FORM_DEPTH = 6


def extract_pdf(data: bytes, limits: ExtractLimits) -> ExtractedDocument:
    """Blocks of a PDF's text layer, page by page; the title is the metadata's.

    Words hyphenated at a line's end are rejoined. A file that opens with an empty password is read.

    Raises:
        UnreadableDocument: no PDF, ends early, encrypted, or damaged in a part that holds text.
        TooLarge: too many pages, too much text, or a decompression bomb in bytes or in time.
        EmptyDocument: no page has text, as in a scan.
    """
    _check_ends(data)
    clock = Clock(limits.cpu_seconds)
    with _translated_errors(), _bounded(limits):
        reader = _LeanReader(BytesIO(data), clock)
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableDocument("The PDF is encrypted.")
        if len(reader.pages) > limits.pdf_pages:
            raise TooLarge(f"The PDF has {len(reader.pages)} pages; at most {limits.pdf_pages} are read.")
        title, headings = _title(reader), headings_by_page(reader)
        pages = rejoined_pages(list(_page_texts(reader, limits, clock)))
    if not any(text.strip() for text in pages):
        raise EmptyDocument("The PDF holds no text; scanned pages need text recognition first.")
    outline = OutlineBuilder(limits.blocks, first_h1_is_title=False)
    for number, text in enumerate(pages):
        add_page(outline, text, headings.get(number, ()))
    return outline.document(NO_METADATA, title)


class _LeanReader(PdfReader):
    """A reader that keeps few decompressed streams and looks at the clock with every object it resolves.

    pypdf keeps all streams it has decompressed, and each may be a bomb within bounds.
    """

    def __init__(self, stream: BytesIO, clock: Clock) -> None:
        self._clock = clock
        self._decoded: deque[EncodedStreamObject] = deque()
        super().__init__(stream)

    def get_object(self, indirect_reference: int | IndirectObject) -> PdfObject | None:
        """The object, as pypdf gives it; older streams forget their decompressed bytes.

        Raises:
            TooLarge: the time is over.
        """
        self._clock.check()
        found = super().get_object(indirect_reference)
        if isinstance(found, EncodedStreamObject) and not any(found is recent for recent in self._decoded):
            self._decoded.append(found)
            if len(self._decoded) > _DECODED_STREAMS_KEPT:
                self._decoded.popleft().decoded_self = None
        return found


def _check_ends(data: bytes) -> None:
    if b"%PDF-" not in data[:_HEADER_WITHIN]:
        raise UnreadableDocument("This is not a PDF file.")
    if b"%%EOF" not in data[-_END_WITHIN:]:
        raise UnreadableDocument("The PDF ends early: its end mark is missing, as after a broken transfer.")


@contextmanager
def _bounded(limits: ExtractLimits) -> Iterator[None]:
    """The limits of pypdf itself, set for this thread and this document only."""
    largest = limits.pdf_stream_bytes
    with apply_configuration(
        maximum_declared_stream_length=limits.pdf_bytes,
        array_based_stream_maximum_output_length=largest,
        lzw_maximum_output_length=largest,
        run_length_maximum_output_length=largest,
        zlib_maximum_output_length=largest,
        brotli_maximum_output_length=largest,
        stream_decoding_work_maximum_length=4 * largest,
        stream_parsing_work_maximum_count=_MAX_TOKENS_PER_STREAM,
        page_tree_maximum_entries=4 * limits.pdf_pages,
        jbig2dec_binary=None,
    ):
        yield


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except LimitReachedError as error:
        raise TooLarge("The PDF holds more than is read once it is decompressed.") from error
    except (FileNotDecryptedError, DependencyError) as error:
        raise UnreadableDocument("The PDF is encrypted.") from error
    except DAMAGE as error:
        raise UnreadableDocument("The PDF is damaged.") from error


def _title(reader: PdfReader) -> str | None:
    try:
        return reader.metadata.title if reader.metadata is not None else None
    except DAMAGE:  # a broken title is none: the text may well be whole
        return None


def _page_texts(reader: PdfReader, limits: ExtractLimits, clock: Clock) -> Iterator[str]:
    chars = 0
    for page in reader.pages:
        _check_form_depth(page)
        text = page.extract_text()
        clock.check()  # pypdf swallows what is raised inside a form of the page
        chars += len(text)
        if chars > limits.pdf_text_chars:
            raise TooLarge(f"The PDF holds more than {limits.pdf_text_chars} characters.")
        yield text


def _check_form_depth(page: PageObject) -> None:
    level = _forms(page)
    for _ in range(_MAX_FORM_DEPTH):
        level = {name: below for form in level.values() for name, below in _forms(form).items()}
    if level:
        raise TooLarge(f"The PDF nests drawings more than {_MAX_FORM_DEPTH} deep.")


def _forms(holder: DictionaryObject) -> dict[int, DictionaryObject]:
    """The form objects that a page or a form can draw, each once."""
    forms: dict[int, DictionaryObject] = {}
    resources = holder.get("/Resources", NullObject()).get_object()
    drawn = (
        resources.get("/XObject", NullObject()).get_object()
        if isinstance(resources, DictionaryObject)
        else None
    )
    for reference in drawn.values() if isinstance(drawn, DictionaryObject) else ():
        found = reference.get_object()
        if isinstance(found, DictionaryObject) and found.get("/Subtype") == "/Form":
            forms[id(found)] = found
    return forms
