"""Tracing as the settings say: steps are always timed, and traced where an endpoint is set."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from service.adapters.tracing.settings import TracingSettings
from service.adapters.tracing.timed import StepTimes, TimedTracer
from service.errors import ConfigurationError
from service.ports.tracing import UNTRACED, Tracer


@dataclass(frozen=True, slots=True)
class Tracing:
    """A process's tracer, and what it has measured. `close` delivers what is left, in bounded time."""

    tracer: Tracer
    times: StepTimes
    close: Callable[[], Awaitable[None]]


def open_tracing(settings: TracingSettings) -> Tracing:
    """Raises ConfigurationError for an endpoint that is no URL, or where OpenTelemetry is not installed."""
    inner, close = (UNTRACED, _nothing_left) if not settings.endpoint else _exported(settings)
    times = StepTimes()
    return Tracing(TimedTracer(times, inner), times, close)


def _exported(settings: TracingSettings) -> tuple[Tracer, Callable[[], Awaitable[None]]]:
    try:
        # OpenTelemetry is an extra, and only who traces pays for importing it.
        from service.adapters.tracing.exporting import open_export  # noqa: PLC0415
        from service.adapters.tracing.otel import OTelTracer  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            "CITEWELL_OTEL_ENDPOINT is set and OpenTelemetry is not installed: pip install 'citewell[otel]'"
        ) from error
    export = open_export(settings)
    return OTelTracer(export.provider, settings.queries), export.close


async def _nothing_left() -> None:
    """Nothing was traced."""
