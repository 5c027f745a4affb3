"""A server on loopback, over TLS if asked, that makes collections and remembers what it was told of them."""

import asyncio
import copy
import json
import ssl
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.vectors.fault_server import COLLECTION_INFO, http, result

Json = dict[str, object]
_MISSING = http(404, json.dumps({"status": {"error": "Not found"}}).encode())


@dataclass(frozen=True, slots=True)
class Certificate:
    """Of 127.0.0.1, signed by itself."""

    file: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """What a server with it needs."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file, self.key)
        return context


def certificate(folder: Path) -> Certificate:
    """A new one, in files."""
    made = Certificate(folder / "ca.pem", folder / "key.pem")
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:TRUE"]
    files = ["-keyout", str(made.key), "-out", str(made.file)]
    subprocess.run([*words.split(), *names, *files], check=True, capture_output=True)
    return made


@dataclass(slots=True)
class RecordingServer:
    """Collections come to be by PUT; whatever else is asked is answered with an empty result."""

    tls: ssl.SSLContext | None = None
    made: dict[str, Json] = field(default_factory=dict)
    searches: list[Json] = field(default_factory=list)
    _server: asyncio.Server | None = None

    async def __aenter__(self) -> "RecordingServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    @property
    def url(self) -> str:
        """Where it listens."""
        assert self._server is not None
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                line, *headers = head.split("\r\n")
                sizes = [int(h.split(":")[1]) for h in headers if h.lower().startswith("content-length")]
                body = await reader.readexactly(sum(sizes))
                method, target, _ = line.split(" ")
                writer.write(self._answer(method, target.partition("?")[0].split("/")[1:], body))
                await writer.drain()
        writer.close()

    def _answer(self, method: str, path: list[str], body: bytes) -> bytes:
        told: Json = json.loads(body) if body else {}
        match method, path:
            case "PUT", ["collections", name]:
                self.made[name] = told
                return result(value=True)
            case "GET", ["collections", name]:
                return self._info(name)
            case "POST", ["collections", _, "points", "query"]:
                self.searches.append(told)
                return result({"points": []})
            case "POST", ["collections", _, "points", "count"]:
                return result({"count": 0})
            case _:
                return result({"operation_id": 0, "status": "completed"})

    def _info(self, name: str) -> bytes:
        if name not in self.made:
            return _MISSING
        info = copy.deepcopy(COLLECTION_INFO)
        config = info["config"]
        assert isinstance(config, dict)
        config["metadata"] = self.made[name]["metadata"]
        return result(info)
