"""Documents in, passages out: extraction of Markdown, HTML, plain text and PDF, and splitting."""

from service.adapters.extract.document import (
    DEFAULT_LIMITS,
    Block,
    ExtractedDocument,
    ExtractLimits,
    Format,
)
from service.adapters.extract.extraction import extract
from service.adapters.extract.files import SkippedPath, SkipReason, SourceFile, SourceKind, discover
from service.adapters.extract.ndjson import NdjsonLine, read_ndjson_lines
from service.adapters.extract.splitting import DEFAULT_BUDGET, TokenBudget, split
from service.adapters.extract.token_estimate import estimate_tokens

__all__ = [
    "DEFAULT_BUDGET",
    "DEFAULT_LIMITS",
    "Block",
    "ExtractLimits",
    "ExtractedDocument",
    "Format",
    "NdjsonLine",
    "SkipReason",
    "SkippedPath",
    "SourceFile",
    "SourceKind",
    "TokenBudget",
    "discover",
    "estimate_tokens",
    "extract",
    "read_ndjson_lines",
    "split",
]
