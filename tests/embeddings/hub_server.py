"""A model hub on this machine: the few requests that fetching one repository makes, over real HTTP."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass(slots=True)
class Hub:
    """A running hub. `requests` are the paths asked for; `broken` paths answer 500."""

    name: str
    files: dict[str, bytes]
    url: str = ""
    requests: list[str] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)

    def answer(self, path: str) -> tuple[int, bytes]:
        """Status and body: the repository's description, its tree, or a file of it."""
        self.requests.append(path)
        if path in self.broken:
            return 500, b""
        about = f"/api/models/{self.name}"
        if path in (about, f"{about}/revision/main", f"{about}/revision/{COMMIT}"):
            siblings = [{"rfilename": file} for file in self.files]
            return 200, _json({"id": self.name, "modelId": self.name, "sha": COMMIT, "siblings": siblings})
        if path == f"{about}/tree/{COMMIT}":
            return 200, _json([_entry(file, content) for file, content in self.files.items()])
        for revision in ("main", COMMIT):
            file = path.removeprefix(f"/{self.name}/resolve/{revision}/")
            if file in self.files:
                return 200, self.files[file]
        return 404, b""


class HubServer(ThreadingHTTPServer):
    """Listens on a free port of this machine."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub = hub
        hub.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: HubServer

    def do_GET(self) -> None:
        status, body = self.server.hub.answer(unquote(urlsplit(self.path).path))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{_etag(body)}"')
        self.send_header("X-Repo-Commit", COMMIT)
        if status == HTTPStatus.NOT_FOUND:
            self.send_header("X-Error-Code", "RepoNotFound")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the base class calls it by this name

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on standard error."""


@contextmanager
def serve_hub(name: str, folder: Path) -> Iterator[Hub]:
    """Serve a folder as the repository `name` at one commit."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    hub = Hub(name, {path.relative_to(folder).as_posix(): path.read_bytes() for path in files})
    server = HubServer(hub)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _entry(file: str, content: bytes) -> dict[str, object]:
    return {"type": "file", "path": file, "size": len(content), "oid": _etag(content)}


def _etag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:40]
