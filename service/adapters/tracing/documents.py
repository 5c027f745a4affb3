"""Documents whose extraction is told."""

from service.adapters.documents import ExtractedDocuments
from service.adapters.extract import DEFAULT_LIMITS, ExtractLimits
from service.ports.documents import DocumentFormat, ReadDocument
from service.ports.tracing import Step, Tracer


class TracedDocuments(ExtractedDocuments):
    """Extraction with a span; it runs on threads, which bring their request's trace along."""

    def __init__(self, tracer: Tracer, limits: ExtractLimits = DEFAULT_LIMITS) -> None:
        super().__init__(limits)
        self._tracer = tracer

    def read(self, data: bytes, form: DocumentFormat) -> ReadDocument:
        """The passages of a document. Raises UnreadableDocument, EmptyDocument, TooLarge, InvalidText."""
        with self._tracer.span(Step.EXTRACT) as span:
            span.note("format", form.value)
            span.note("bytes", len(data))
            document = super().read(data, form)
            span.note("passages", len(document.passages))
        return document
