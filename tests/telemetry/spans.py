"""Spans kept in memory, and read as trees."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext

from service.adapters.tracing.exporting import new_provider
from service.adapters.tracing.otel import OTelTracer
from service.adapters.tracing.settings import QueryText
from service.adapters.tracing.timed import StepTimes, TimedTracer

Tree = dict[str, object]


@dataclass(frozen=True, slots=True)
class Spans:
    """A tracer as production has it, but for where its spans go."""

    tracer: TimedTracer
    kept: InMemorySpanExporter
    times: StepTimes = field(default_factory=StepTimes)

    def all(self) -> Sequence[ReadableSpan]:
        """Every span that has ended."""
        return self.kept.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of a name, in the order of their end."""
        return [span for span in self.all() if span.name == name]

    def tree(self, root: ReadableSpan) -> Tree:
        """The names below a span, each with what is below it; equal names are one entry."""
        below: Tree = {}
        for span in self.all():
            if span.parent is not None and span.parent.span_id == context_of(root).span_id:
                inner = self.tree(span)
                before = below.get(span.name)
                below[span.name] = {**before, **inner} if isinstance(before, dict) else inner
        return below

    def text(self) -> str:
        """Everything that would leave the process."""
        return "\n".join(span.to_json() for span in self.all())


def context_of(span: ReadableSpan) -> SpanContext:
    """The ids of a span that has ended."""
    context = span.get_span_context()
    assert context is not None
    return context


def kept_spans(queries: QueryText = QueryText.HIDDEN) -> Spans:
    """A tracer whose spans can be looked at."""
    kept, provider = InMemorySpanExporter(), new_provider("test")
    provider.add_span_processor(SimpleSpanProcessor(kept))
    times = StepTimes()
    return Spans(TimedTracer(times, OTelTracer(provider, queries)), kept, times)
