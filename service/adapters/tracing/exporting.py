"""Spans on their way to an OTLP/HTTP receiver. A receiver that is down or slow costs no request anything."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased

from service.adapters.flags.daemon_call import call_on_daemon
from service.adapters.tracing.settings import TracingSettings
from service.errors import ConfigurationError

TRACES_PATH: Final = "/v1/traces"
BATCH: Final = 512  # spans of one delivery
# They write a line for every delivery that fails and every span that is dropped: SaidOnce says it once.
_TALKATIVE: Final = ("opentelemetry.exporter.otlp", "opentelemetry.sdk._shared_internal")
_log = structlog.get_logger(__name__)


class SaidOnce(SpanExporter):
    """Another exporter, whose failures are told once until it succeeds again. Runs on the batch's own thread."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self._failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Deliver a batch; one that cannot be delivered is dropped."""
        result = self._inner.export(spans)
        failed = result is not SpanExportResult.SUCCESS
        if failed and not self._failing:
            _log.warning("traces_not_delivered", consequence="spans are dropped until the receiver answers")
        if self._failing and not failed:
            _log.info("traces_delivered_again")
        self._failing = failed
        return result

    def shutdown(self) -> None:
        """Give up what is being delivered."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is held here."""
        return self._inner.force_flush(timeout_millis)


class Export:
    """The provider that spans come from and its last delivery."""

    def __init__(self, provider: TracerProvider, close_timeout: float) -> None:
        self.provider = provider
        self._close_timeout = close_timeout

    async def close(self) -> None:
        """Deliver what is left. A receiver that does not answer is left alone after the timeout."""
        closing = call_on_daemon(self.provider.shutdown)  # it blocks; a pool's thread would hold up the exit
        with suppress(TimeoutError):
            async with asyncio.timeout(self._close_timeout):
                await closing


def open_export(settings: TracingSettings) -> Export:
    """Batches to the receiver of the settings. Nothing connects yet. Raises ConfigurationError."""
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    exporter = OTLPSpanExporter(traces_url(settings.endpoint), timeout=settings.export_timeout)
    provider = new_provider(settings.version)
    provider.add_span_processor(
        BatchSpanProcessor(
            SaidOnce(exporter),
            max_queue_size=settings.waiting,
            schedule_delay_millis=settings.export_every * 1_000,
            max_export_batch_size=min(BATCH, settings.waiting),
        )
    )
    return Export(provider, settings.close_timeout)


def new_provider(version: str) -> TracerProvider:
    """A provider of this process's own, which traces whatever its caller traces and every root."""
    resource = Resource.create({"service.name": "citewell", "service.version": version})
    return TracerProvider(sampler=ParentBased(ALWAYS_ON), resource=resource, shutdown_on_exit=False)


def traces_url(endpoint: str) -> str:
    """The URL that spans are posted to; a base URL gets OTLP's own path. Raises ConfigurationError."""
    try:
        parts = urlsplit(endpoint)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none
        is_url = False
    if not is_url:
        raise ConfigurationError("CITEWELL_OTEL_ENDPOINT is not an http:// or https:// URL")
    return endpoint if parts.path.strip("/") else f"{endpoint.rstrip('/')}{TRACES_PATH}"
