"""A model hub on this machine: the few requests that fetching one repository makes, over real HTTP."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass(slots=True)
class Hub:
    """A running hub. `requests` are the paths asked for; `broken` paths answer 500."""

    url: str
    files: dict[str, bytes]
    requests: list[str] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)


@contextmanager
def serve_hub(name: str, folder: Path) -> Iterator[Hub]:
    """Serve a folder as the repository `name` at one commit."""
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    hub = Hub("", files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_HEAD(self) -> None:
            self._answer()

        def _answer(self) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.requests.append(path)
            if path in hub.broken:
                return self._send(500, b"")
            if path in (
                f"/api/models/{name}",
                *(f"/api/models/{name}/revision/{r}" for r in ("main", COMMIT)),
            ):
                siblings = [{"rfilename": file} for file in hub.files]
                return self._json({"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings})
            if path == f"/api/models/{name}/tree/{COMMIT}":
                return self._json([_entry(file, content) for file, content in hub.files.items()])
            for revision in ("main", COMMIT):
                file = path.removeprefix(f"/{name}/resolve/{revision}/")
                if file != path and file in hub.files:
                    return self._send(200, hub.files[file])
            return self._send(404, b"", {"X-Error-Code": "RepoNotFound"})

        def _json(self, value: object) -> None:
            self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

        def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", f'"{_etag(body)}"')
            self.send_header("X-Repo-Commit", COMMIT)
            for key, value in (headers or {}).items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
            """Say nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _entry(file: str, content: bytes) -> dict[str, object]:
    return {"type": "file", "path": file, "size": len(content), "oid": _etag(content)}


def _etag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:40]
