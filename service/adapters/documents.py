"""Documents and files for the use cases, on the extractors. Implements DocumentReader and FileSource."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from service.adapters.extract import (
    DEFAULT_BUDGET,
    DEFAULT_LIMITS,
    ExtractLimits,
    Format,
    SkippedPath,
    SourceKind,
    TokenBudget,
    discover,
    extract,
    read_ndjson_lines,
    split,
)
from service.ports.documents import DocumentFormat, FileLine, FoundFile, PassedOver, ReadDocument

EXTRACTION_RULES = 1  # raise whenever the same bytes may give other passages


class ExtractedDocuments:
    """Documents within limits, cut to a budget; files read a line at a time."""

    def __init__(self, limits: ExtractLimits = DEFAULT_LIMITS, budget: TokenBudget = DEFAULT_BUDGET) -> None:
        self._limits = limits
        self._budget = budget

    @property
    def rules(self) -> str:
        """The version of the extractors and the budget."""
        return f"{EXTRACTION_RULES}/{self._budget.target}/{self._budget.hard}"

    def read(self, data: bytes, form: DocumentFormat) -> ReadDocument:
        """The passages of a document. Raises UnreadableDocument, EmptyDocument, TooLarge, InvalidText."""
        document = extract(data, Format(form.value), self._limits)
        return ReadDocument(document.title, document.metadata, split(document.blocks, self._budget))

    def find(self, paths: Sequence[Path]) -> Iterator[FoundFile | PassedOver]:
        """Every file at and under the paths; what is passed over comes before the file that follows it."""
        passed: list[SkippedPath] = []
        for file in discover(paths, passed.append):
            yield from _passed_over(passed)
            is_document = file.kind is not SourceKind.NDJSON
            yield FoundFile(file.path, DocumentFormat(file.kind.value) if is_document else None)
        yield from _passed_over(passed)

    def lines(self, path: Path) -> Iterator[FileLine]:
        """The lines of a file. Raises UnreadableDocument, TooLarge."""
        for line in read_ndjson_lines(path, self._limits):
            yield FileLine(line.number, line.data, line.error)


def _passed_over(passed: list[SkippedPath]) -> Iterator[PassedOver]:
    """What the walk reported so far, once."""
    yield from (PassedOver(path.path, path.reason.value, path.is_fault) for path in passed)
    passed.clear()
