"""Plain text to blocks: one a paragraph, without headings."""

import re

from service.adapters.extract.decoding import decode
from service.adapters.extract.document import NO_METADATA, ExtractedDocument, ExtractLimits
from service.adapters.extract.outline import OutlineBuilder

BLANK_LINES = re.compile(r"\n\s*\n")


def extract_plain_text(data: bytes, limits: ExtractLimits) -> ExtractedDocument:
    """One block a paragraph, in order; plain text has neither title nor headings.

    Raises:
        InvalidText, UnreadableDocument, EmptyDocument, TooLarge: see `extract`.
    """
    outline = OutlineBuilder(limits.blocks)
    for paragraph in BLANK_LINES.split(decode(data)):
        outline.add_text(paragraph)
    return outline.document(NO_METADATA)
