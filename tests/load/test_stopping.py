"""U20: the way out of a real `citewell serve`."""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from service.surfaces.cli import exit_codes
from tests.cli.commands import CommandLine, Json, item_ids
from tests.cli.test_serve import address_of, asked
from tests.http.calls import document, ndjson
from tests.load.door import LIVE, READY, VOCABULARY

PATIENCE_S = 60.0
LARGE = 200_000  # bytes of a body that is too large to be read before its request has its turn


@dataclass(slots=True)
class Running:
    """A server in its own process."""

    process: "subprocess.Popen[str]"
    address: str

    def connect(self) -> socket.socket:
        """A connection."""
        host, port = self.address.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout=PATIENCE_S)

    def ended(self) -> int:
        """The exit status, once the process has ended."""
        self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode


@contextmanager
def running(tmp_path: Path, **variables: str) -> Iterator[Running]:
    """A server until the block ends."""
    line = CommandLine(
        tmp_path / "data", {f"CITEWELL_{name.upper()}": value for name, value in variables.items()}
    )
    process = line.process("serve", "--port", "0")
    try:
        yield Running(process, address_of(process))
    finally:
        process.kill()
        process.communicate()


@contextmanager
def slow_request(server: Running) -> Iterator[tuple[socket.socket, bytes]]:
    """A retrieval that is being worked on and lacks the end of its body, and that end."""
    body = json.dumps({"query": "sill", "cursor": None}).encode() + b" " * LARGE
    with server.connect() as connection:
        connection.sendall(
            f"POST /v1/retrieve HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        )
        connection.sendall(body[:-1])
        time.sleep(1.0)  # so that it has been read and has its slot; nothing depends on more than a moment
        yield connection, body[-1:]


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side closes."""
    received = b""
    while piece := connection.recv(65_536):
        received += piece
    return received


def told(server: Running, request: bytes) -> bytes:
    """The whole answer to a request on a new connection."""
    with server.connect() as connection:
        connection.sendall(request.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))
        return everything(connection)


def until_draining(server: Running) -> None:
    """Wait until the server says that it is about to stop."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if b'"draining"' in told(server, READY):
            return
        time.sleep(0.02)
    raise AssertionError("the server goes on")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_ends_with_success(tmp_path: Path, number: signal.Signals) -> None:
    """U20: SIGTERM and Ctrl-C end a server that has nothing to do with status 0, kept connections or not."""
    with running(tmp_path) as server, server.connect() as kept:
        kept.sendall(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b" 200 " in kept.recv(65_536)
        server.process.send_signal(number)
        assert server.ended() == 0


def test_what_is_open_is_finished(tmp_path: Path) -> None:
    """U20: after SIGTERM nothing new is begun, the open request is answered, and the status is 0."""
    with running(tmp_path, drain_seconds="60", request_deadline="60") as server:
        with slow_request(server) as (connection, rest):
            server.process.terminate()
            until_draining(server)
            assert server.process.poll() is None
            connection.sendall(rest)
            assert everything(connection).startswith(b"HTTP/1.1 200 ")
        assert server.ended() == 0


def test_the_door_stays_open_while_draining(tmp_path: Path) -> None:
    """U19: while open requests finish, new ones are told that the service drains, lives and begins nothing."""
    with running(tmp_path, drain_seconds="60", request_deadline="60") as server:
        with slow_request(server) as (connection, rest):
            server.process.terminate()
            until_draining(server)
            for _ in range(3):
                ready = told(server, READY)
                assert ready.startswith(b"HTTP/1.1 503 ")
                assert b"retry-after: 1" in ready.lower()
                assert told(server, LIVE).startswith(b"HTTP/1.1 200 ")
                for request in (VOCABULARY, b"DELETE /v1/nothing HTTP/1.1\r\nhost: localhost\r\n\r\n"):
                    refused = told(server, request)
                    assert refused.startswith(b"HTTP/1.1 503 ")
                    assert b"retry-after: 1" in refused
                    assert b"the service is stopping; nothing of the request was begun" in refused
            with server.connect() as idle:  # who says nothing holds nothing up
                connection.sendall(rest)
                assert everything(connection).startswith(b"HTTP/1.1 200 ")
                assert server.ended() == 0
                assert idle.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            server.connect()


def test_an_open_door_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """U20: whoever goes on coming after SIGTERM does not keep the process longer than what was open before."""
    with running(tmp_path, drain_seconds="600", request_deadline="600") as server:
        with slow_request(server) as (connection, rest):
            server.process.terminate()
            until_draining(server)
            held = [server.connect() for _ in range(5)]
            for one in held:
                one.sendall(b"POST /v1/retrieve HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
            connection.sendall(rest)
            assert everything(connection).startswith(b"HTTP/1.1 200 ")
        assert server.ended() == 0
        for one in held:
            one.close()


def test_what_takes_longer_is_told_so(tmp_path: Path) -> None:
    """U20: what is not finished in the time to drain is answered 503 unavailable, and the status is 0."""
    with running(tmp_path, drain_seconds="0", request_deadline="60") as server:
        with slow_request(server) as (connection, _):
            server.process.terminate()
            answer = everything(connection)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b'"code":"unavailable"' in answer
            assert b"retry-after" in answer.lower()
        assert server.ended() == 0


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    """U20: a second SIGTERM ends the process though a request is open."""
    with running(tmp_path, drain_seconds="600", request_deadline="600") as server, slow_request(server):
        server.process.terminate()
        until_draining(server)
        server.process.terminate()
        assert server.ended() == -signal.SIGTERM


def test_an_import_tells_what_was_stored(tmp_path: Path) -> None:
    """U20: SIGTERM ends an import after the lines that came whole, and its last result says so."""
    lines = ndjson(document(f"d{number}", f"sill {number}") for number in range(3))
    with running(tmp_path, drain_seconds="5") as server:
        with server.connect() as connection:
            connection.sendall(
                b"POST /v1/items/import HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
            )
            sent = lines + b'{"item_id": "cut'
            connection.sendall(b"%x\r\n%s\r\n" % (len(sent), sent))
            received = b""
            while b'"d2"' not in received:
                received += connection.recv(65_536)
            server.process.terminate()
            until_draining(server)
            received += everything(connection)
        assert server.ended() == 0
    assert received.endswith(b"0\r\n\r\n"), "the answer is complete"
    results: list[Json] = [json.loads(line) for line in received.splitlines() if line.startswith(b"{")]
    assert [line.get("item_id") for line in results] == ["d0", "d1", "d2", None]
    assert results[3]["line"] == 4
    assert '"unavailable"' in json.dumps(results[3])
    with running(tmp_path) as again:
        assert sorted(item_ids(asked(again.address, "sill"))) == ["d0", "d1", "d2"]


def test_an_import_that_sends_on_reads_its_results(tmp_path: Path) -> None:
    """U20: a client that sends everything before it reads gets its results though the server stops meanwhile."""
    with running(tmp_path, drain_seconds="30") as server:
        with server.connect() as connection:
            connection.sendall(
                b"POST /v1/items/import HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
            )
            for number in range(40):
                line = ndjson([document(f"d{number:02}", f"sill {number}", title="t" * 1_000)])
                connection.sendall(b"%x\r\n%s\r\n" % (len(line), line))
                if number == 20:
                    time.sleep(
                        1.0
                    )  # the lines so far are stored, the others are sent into a server that stops
                    server.process.terminate()
                    until_draining(server)
            connection.sendall(b"0\r\n\r\n")
            received = everything(connection)
        assert server.ended() == 0
    assert received.endswith(b"0\r\n\r\n")
    results: list[Json] = [json.loads(line) for line in received.splitlines() if line.startswith(b"{")]
    stored = [str(line["item_id"]) for line in results[:-1]]
    assert stored == [f"d{number:02}" for number in range(len(stored))]
    assert len(stored) >= 1
    assert results[-1]["line"] == len(stored) + 1
    listed = CommandLine(tmp_path / "data").json("retrieve", "sill", "--limit", "200")
    assert sorted(item_ids(listed)) == stored


def test_an_ingest_that_is_told_to_stop_loses_nothing(tmp_path: Path) -> None:
    """U20: SIGTERM ends an ingest after its batch; what it says is stored, and the next run does the rest."""
    total = 10_000
    (tmp_path / "docs.jsonl").write_bytes(ndjson(document(f"d{n}", f"sill {n}") for n in range(total)))
    line = CommandLine(tmp_path / "data")
    process = line.process("ingest", str(tmp_path / "docs.jsonl"), "--json")
    log = line.data_dir / "citewell.db-wal"
    until = time.monotonic() + PATIENCE_S
    while not (log.exists() and log.stat().st_size > 1_000_000) and time.monotonic() < until:
        time.sleep(0.02)
    process.terminate()
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == exit_codes.INTERRUPTED, stderr
    first = json.loads(stdout)["stored"]
    assert 0 < first < total
    process = line.process("ingest", str(tmp_path / "docs.jsonl"), "--json")
    stdout, stderr = process.communicate(timeout=2 * PATIENCE_S)
    assert process.returncode == 0, stderr
    assert json.loads(stdout)["stored"] == total - first
