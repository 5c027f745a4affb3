"""What extraction takes and gives: formats, limits, blocks and the extracted document."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

NO_METADATA: Mapping[str, object] = MappingProxyType({})


class Format(StrEnum):
    """How a document's bytes are written."""

    MARKDOWN = "markdown"
    HTML = "html"
    TEXT = "text"
    PDF = "pdf"


@dataclass(frozen=True, slots=True)
class Block:
    """One paragraph, list, table or piece of code. `heading` is its heading path, or None."""

    heading: str | None
    text: str


@dataclass(frozen=True, slots=True)
class ExtractedDocument:
    """A document's text in reading order; `blocks` is never empty.

    `metadata` is Markdown's YAML front matter (strings cleaned, dates as YAML gives them), or HTML's
    `canonical_url` and `lang` where the page states them; else it is empty.
    """

    title: str | None
    metadata: Mapping[str, object]
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class ExtractLimits:
    """Bounds on what one document or one NDJSON stream may cost.

    Attributes:
        text_bytes: largest Markdown, HTML or plain-text document.
        pdf_bytes: largest PDF file.
        blocks: most blocks of one document.
        cpu_seconds: most processor time of the thread, for Markdown and PDF, whose parsers can be slow.
        pdf_pages: most pages of a PDF.
        pdf_stream_bytes: largest PDF stream once decompressed; a few are in memory at a time.
        pdf_text_chars: most text a PDF may give.
        line_bytes: longest NDJSON line, and so the most memory a line may take.
        expanded_bytes: most bytes a gzip may give in all.
        expansion_ratio: most bytes a gzip may give for each byte it holds, once past `ratio_grace_bytes`.
        ratio_grace_bytes: what a gzip may give before its ratio counts: a small file packs well.
    """

    text_bytes: int = 16 * MIB
    pdf_bytes: int = 64 * MIB
    blocks: int = 300_000
    cpu_seconds: float = 60.0
    pdf_pages: int = 2_000
    pdf_stream_bytes: int = 16 * MIB
    pdf_text_chars: int = 32 * MIB
    line_bytes: int = 16 * MIB
    expanded_bytes: int = 8 * GIB
    expansion_ratio: int = 200
    ratio_grace_bytes: int = 16 * MIB


DEFAULT_LIMITS = ExtractLimits()
