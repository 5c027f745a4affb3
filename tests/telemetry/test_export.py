"""Delivery of spans: to a receiver that takes them, and past one that does not."""

import asyncio
import builtins
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from structlog.testing import capture_logs

from service.adapters.tracing.exporting import traces_url
from service.adapters.tracing.opening import Tracing, open_tracing
from service.adapters.tracing.settings import TracingSettings
from service.bootstrap import application
from service.errors import ConfigurationError
from service.ports.tracing import UNTRACED, Step
from service.settings import Settings
from tests.http.calls import ask, document, store
from tests.http.conftest import connected
from tests.telemetry.receiver import PATIENCE_S, Mood, receiver

pytestmark = pytest.mark.anyio
QUICK = TracingSettings(version="9", export_timeout=0.5, close_timeout=0.3, export_every=0.05, waiting=64)


def tracing_to(url: str, close_timeout: float = QUICK.close_timeout) -> Tracing:
    """Tracing that delivers many times a second."""
    return open_tracing(
        TracingSettings(url, QUICK.queries, QUICK.version, 0.5, close_timeout, QUICK.export_every, 64)
    )


def step(tracing: Tracing) -> None:
    """One span."""
    with tracing.tracer.span(Step.RESOLVE) as span:
        span.note("terms", 1)


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something, for as long as a slow machine may take."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        await asyncio.sleep(0.02)


async def test_spans_arrive(tmp_path: Path) -> None:
    """U19: CITEWELL_OTEL_ENDPOINT alone sends a process's spans, the last of them when it ends."""
    with receiver() as taken:
        async with application(Settings(data_dir=tmp_path, otel_endpoint=taken.url)) as app:
            step(app.tracing)
        assert taken.names == ["resolve"]
        assert taken.paths == ["/v1/traces"]
        assert taken.resource["service.name"] == "citewell"


@pytest.mark.parametrize("mood", [Mood.ILL, Mood.SILENT])
async def test_a_receiver_that_is_ill_costs_nothing(mood: Mood) -> None:
    """U19: spans end and the process ends while a receiver refuses or never answers; it is said once."""
    with receiver(mood) as taken, capture_logs() as lines:
        tracing = tracing_to(taken.url)
        for _ in range(1_000):  # many times what may wait
            step(tracing)
        await until(lambda: bool(lines))
        for _ in range(1_000):
            step(tracing)
        await until(taken.asked.is_set)
        await asyncio.wait_for(tracing.close(), PATIENCE_S)
        assert [line["event"] for line in lines] == ["traces_not_delivered"]


async def test_requests_are_answered_while_the_receiver_is_silent(sqlite_settings: Settings) -> None:
    """U19: requests and the process's end go by a receiver that never answers a delivery."""
    with receiver(Mood.SILENT) as taken:
        async with connected(sqlite_settings.model_copy(update={"otel_endpoint": taken.url})) as client:
            await store(client, document("a", "sill"))
            await until(taken.asked.is_set)  # a delivery hangs from here on
            for _ in range(20):
                assert (await ask(client, "sill"))["shown"] == 1
            assert not taken.came.is_set()
        assert not taken.over.is_set(), "the process ended before the receiver did"


async def test_nobody_listens() -> None:
    """U19: a port that nobody listens on is told once, whatever the library would write."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with capture_logs() as lines:
        tracing = tracing_to(f"http://127.0.0.1:{port}")
        step(tracing)
        await until(lambda: bool(lines))
        await tracing.close()
    assert [(line["event"], line["log_level"]) for line in lines] == [("traces_not_delivered", "warning")]


async def test_a_receiver_that_comes_back() -> None:
    """U19: when a receiver takes spans again that is said too, and the spans of that time arrive."""
    with receiver(Mood.ILL) as taken, capture_logs() as lines:
        tracing = tracing_to(taken.url)
        step(tracing)
        await until(lambda: bool(lines))
        taken.mood = Mood.WELL
        step(tracing)
        await until(taken.came.is_set)
        await tracing.close()
        assert taken.names == ["resolve"]
    assert [line["event"] for line in lines] == ["traces_not_delivered", "traces_delivered_again"]


async def test_spans_do_not_wait_for_the_receiver() -> None:
    """U19: a span ends on the caller's thread while a delivery hangs on the exporter's own."""
    with receiver(Mood.SILENT) as taken:
        tracing = tracing_to(taken.url)
        step(tracing)
        await until(taken.asked.is_set)  # the delivery hangs now, until the block ends
        before = {thread.name for thread in threading.enumerate()}
        for _ in range(200):
            step(tracing)
        assert not taken.came.is_set()
        assert {thread.name for thread in threading.enumerate()} <= before, "no thread a span"
        await tracing.close()


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://collector/otlp/v1/traces", "https://collector/otlp/v1/traces"),
    ],
)
def test_where_spans_go(endpoint: str, url: str) -> None:
    """A base URL gets OTLP's path, a whole one is taken as it is."""
    assert traces_url(endpoint) == url


@pytest.mark.parametrize("endpoint", ["collector:4318", "ftp://collector", "http://", "http://a:x/", "\x00"])
def test_an_endpoint_that_is_no_url(endpoint: str) -> None:
    """U19: a wrong endpoint stops the start, naming the setting."""
    with pytest.raises(ConfigurationError, match="CITEWELL_OTEL_ENDPOINT"):
        open_tracing(TracingSettings(endpoint))


def test_a_missing_extra_is_a_setting_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """U19: an endpoint without the packages stops the start and names the extra; without one nothing is needed."""
    for name in [
        name for name in sys.modules if name.startswith(("opentelemetry", "service.adapters.tracing"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def without(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: tuple[str, ...] = (),
        level: int = 0,
    ) -> ModuleType:
        if name.startswith("opentelemetry"):
            raise ModuleNotFoundError(name)
        return real(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", without)
    assert open_tracing(TracingSettings()).times.readings()
    with pytest.raises(ConfigurationError, match=r"citewell\[otel\]"):
        open_tracing(TracingSettings("http://127.0.0.1:4318"))


def test_nothing_is_imported_or_made_without_an_endpoint() -> None:
    """U19: without an endpoint a span is one shared object that does nothing."""
    with UNTRACED.span(Step.RESOLVE) as one, UNTRACED.request("GET", {}) as other:
        assert one is other
        assert other.trace_id is None
        one.note("terms", 1)
        one.note_query("sill")
        one.fail("never")
        other.call("GET /")
