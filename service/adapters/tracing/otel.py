"""Spans for OpenTelemetry. Implements Tracer.

No attribute names a workspace: traces are read by whoever runs the receiver, across workspaces, and a hash of
a name that can be guessed is that name. Neither do exceptions' messages get in, since some of them quote
their input: an error is known by its code.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import Token
from types import TracebackType
from typing import Final

from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span as OTelSpan
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, format_trace_id, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from service.adapters.tracing.settings import QueryText
from service.errors import CitewellError
from service.ports.tracing import Attribute, RequestSpan, Span, Step

PREFIX: Final = "citewell."  # of attributes that no semantic convention names
LONGEST_QUERY: Final = 500  # characters of one that a span holds


class OTelTracer:
    """Spans of one provider; the current one is carried by the context, so that tasks inherit it."""

    def __init__(self, provider: TracerProvider, queries: QueryText) -> None:
        self._tracer = provider.get_tracer("citewell")
        self._propagator = TraceContextTextMapPropagator()
        self._queries = queries

    def span(self, step: Step) -> AbstractContextManager[Span]:
        """A child of the span that is open, or a trace of its own."""
        return _Open(_Plan(self._tracer, step.value, SpanKind.INTERNAL, None), self._queries)

    def request(self, name: str, carrier: Mapping[str, str]) -> AbstractContextManager[RequestSpan]:
        """A server's span; a `traceparent` that cannot be read begins a trace like none at all."""
        parent = self._propagator.extract(carrier, Context())
        return _Open(_Plan(self._tracer, name, SpanKind.SERVER, parent), self._queries)


class _Plan:
    """What is to be opened."""

    __slots__ = ("kind", "name", "parent", "tracer")

    def __init__(self, tracer: Tracer, name: str, kind: SpanKind, parent: Context | None) -> None:
        self.tracer = tracer
        self.name = name
        self.kind = kind
        self.parent = parent

    def start(self) -> OTelSpan:
        """Begin it."""
        return self.tracer.start_span(
            self.name,
            context=self.parent,
            kind=self.kind,
            record_exception=False,
            set_status_on_exception=False,
        )


class _Open:
    """A span from entry to exit."""

    __slots__ = ("_failed", "_plan", "_queries", "_span", "_token")

    def __init__(self, plan: _Plan, queries: QueryText) -> None:
        self._plan = plan
        self._queries = queries
        self._span: OTelSpan | None = None
        self._token: Token[Context] | None = None
        self._failed = False

    @property
    def trace_id(self) -> str | None:
        """32 hexadecimal digits."""
        return None if self._span is None else format_trace_id(self._span.get_span_context().trace_id)

    def note(self, name: str, value: Attribute) -> None:
        """An attribute; a name with a dot is a convention's own."""
        if self._span is not None:
            self._span.set_attribute(name if "." in name else PREFIX + name, value)

    def fail(self, reason: str) -> None:
        """The span is an error's."""
        self._failed = True
        if self._span is not None:
            self._span.set_attribute("error.type", reason)
            self._span.set_status(Status(StatusCode.ERROR))

    def note_query(self, text: str) -> None:
        """An attribute where it is allowed."""
        if self._queries is QueryText.SHOWN:
            self.note("query", text[:LONGEST_QUERY])

    def call(self, name: str) -> None:
        """Another name."""
        if self._span is not None:
            self._span.update_name(name)

    def __enter__(self) -> "_Open":
        self._span = self._plan.start()
        self._token = contexts.attach(set_span_in_context(self._span))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            contexts.detach(self._token)
        if isinstance(error, asyncio.CancelledError):
            self.note("cancelled", 1)
        elif error is not None and not self._failed:
            self.fail(error.code if isinstance(error, CitewellError) else type(error).__name__)
        if self._span is not None:
            self._span.end()
