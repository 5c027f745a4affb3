"""Captures from their written forms: a capture's JSON, with passages or with text, and a line of BEIR's."""

import msgspec

from service.core.capture_rules import check_item_id
from service.core.links import is_link_stub
from service.errors import EmptyDocument, InvalidInput
from service.model import Capture, ItemId, PassageText, Source, SourceType
from service.ports.documents import DocumentFormat, DocumentReader, FileDefaults
from service.surfaces.wire import CaptureIn, capture_of, decode_capture, decode_json

PATH_SEPARATOR = " > "  # between a document's title and the headings down to a passage


class BeirLine(msgspec.Struct, kw_only=True, rename={"id": "_id"}):
    """A passage of a `corpus.jsonl`; what else a line holds is not read."""

    id: str
    text: str
    title: str = ""


def read_capture(body: CaptureIn, documents: DocumentReader) -> Capture:
    """The capture a body describes, its `text` cut into passages where that is what it has.

    Raises InvalidInput, UnreadableDocument, EmptyDocument, TooLarge, InvalidText.
    """
    if body.text is None:
        if body.format is not None:
            raise InvalidInput("format belongs to text, and there is no text", field="format")
        if body.passages is None:
            raise InvalidInput("a capture has passages, or text with its format", field="passages")
        return capture_of(body)
    if body.passages is not None:
        raise InvalidInput("a capture has either passages or text, not both", field="text")
    if body.format is None:
        raise InvalidInput("text needs its format: markdown, html or text", field="format")
    document = documents.read(
        body.text.encode("utf-8-sig", errors="surrogatepass"), DocumentFormat(body.format)
    )
    return capture_of(body, document.passages)


class CaptureLines:
    """Reads the lines of a file of captures, our own and BEIR's. Implements LineDecoder."""

    def __init__(self, documents: DocumentReader) -> None:
        self._documents = documents

    def __call__(self, line: bytes, defaults: FileDefaults) -> Capture:
        """The capture of a line. Raises what is wrong with it."""
        if b'"_id"' in line:
            return beir_capture(decode_json(line, BeirLine), defaults)
        return read_capture(decode_capture(line), self._documents)


def beir_capture(line: BeirLine, defaults: FileDefaults) -> Capture:
    """A document of one passage. Raises EmptyDocument for a line without text."""
    if not line.text.strip():
        raise EmptyDocument("the line has no text", field="text")
    title, _, heading = line.title.strip().partition(PATH_SEPARATOR)
    passage = PassageText(0, heading.strip() or None, line.text, scorable=not is_link_stub(line.text))
    return Capture(
        title=title.strip() or line.id,
        content_type=defaults.content_type,
        source=Source(SourceType.UPLOAD, None, f"{defaults.filename}#{line.id}"),
        version=defaults.version,
        passages=(passage,),
        item_id=_item_id(line.id),
    )


def _item_id(name: str) -> ItemId | None:
    """A name as an item's id where it can be one; a name that cannot is still part of the source."""
    try:
        check_item_id(name)
    except InvalidInput:
        return None
    return ItemId(name)
