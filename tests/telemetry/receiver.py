"""An OTLP/HTTP receiver on loopback that takes spans, refuses them, or never answers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATIENCE_S = 30.0


class Mood(StrEnum):
    """What the receiver does with spans."""

    WELL = "well"
    ILL = "ill"  # 400: no use in trying again
    SILENT = "silent"


@dataclass(slots=True)
class Receiver:
    """Where spans go, and those that came."""

    url: str
    mood: Mood = Mood.WELL
    names: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    resource: dict[str, str] = field(default_factory=dict)
    came: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def take(self, path: str, body: bytes) -> int:
        """The status of a delivery."""
        self.asked.set()
        if self.mood is Mood.SILENT:
            self.over.wait(PATIENCE_S)
        if self.mood is not Mood.WELL:
            return 400
        self.paths.append(path)
        for batch in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resource.update({pair.key: pair.value.string_value for pair in batch.resource.attributes})
            self.names += [span.name for scope in batch.scope_spans for span in scope.spans]
        self.came.set()
        return 200


@contextmanager
def receiver(mood: Mood = Mood.WELL) -> Iterator[Receiver]:
    """A receiver until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        """Hands deliveries to the receiver."""

        def do_POST(self) -> None:
            """One delivery."""
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(made.take(self.path, body))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        made = Receiver(f"http://127.0.0.1:{server.server_port}", mood)
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            yield made
        finally:
            made.over.set()
            server.shutdown()
            serving.join(PATIENCE_S)
