"""U19: the way in of the real server: what it says before its parts are open, and when they do not open."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from service.bootstrap import Application, application
from service.errors import Unavailable
from service.settings import Settings
from service.surfaces.cli import exit_codes
from service.surfaces.cli.connection import ConnectionBounds
from service.surfaces.http import app as app_module
from service.surfaces.http.app import create_app
from tests.cli.commands import CommandLine
from tests.load.door import LIVE, READY, VOCABULARY, Door, door
from tests.load.test_stopping import running, told

pytestmark = pytest.mark.anyio

BOUNDS = ConnectionBounds(connections=100)
METRICS = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n"
NOWHERE = b"GET /v1/nowhere HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.fixture
def go_on(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Until it is set, the parts take their time to open, as a large index does."""
    open_now = asyncio.Event()

    @asynccontextmanager
    async def slowly(settings: Settings) -> AsyncIterator[Application]:
        await open_now.wait()
        async with application(settings) as opened:
            yield opened

    monkeypatch.setattr(app_module, "application", slowly)
    return open_now


async def refused(starting: Door, request: bytes) -> dict[str, object]:
    """The problem that a request is answered with."""
    answer = await starting.asked(request)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1" in head.lower()
    found: dict[str, object] = json.loads(body)
    assert found["code"] == "unavailable"
    return found


async def test_before_the_parts_are_open(sqlite_settings: Settings, go_on: asyncio.Event) -> None:
    """U19: the server answers from its first moment: it lives, it is starting, and everything else comes later."""
    async with door(create_app(sqlite_settings), BOUNDS) as starting:
        for _ in range(2):
            assert (await starting.asked(LIVE)).startswith(b"HTTP/1.1 200 ")
            ready = await refused(starting, READY)
            assert (ready["ready"], ready["detail"]) == (False, "starting")
            for request in (VOCABULARY, METRICS, NOWHERE):
                assert "the service is starting" in str((await refused(starting, request))["detail"])
        assert not starting.opened.is_set()
        go_on.set()
        async with asyncio.timeout(30):
            await starting.opened.wait()
        for request in (READY, LIVE, VOCABULARY, METRICS):
            assert (await starting.asked(request)).startswith(b"HTTP/1.1 200 ")


async def test_told_to_stop_before_it_was_open(sqlite_settings: Settings, go_on: asyncio.Event) -> None:
    """U20: a server that is told to stop while it starts closes what it had opened, and ends."""
    async with door(create_app(sqlite_settings), BOUNDS) as starting:
        assert (await starting.asked(LIVE)).startswith(b"HTTP/1.1 200 ")
        starting.server.should_exit = True
        go_on.set()
        async with asyncio.timeout(30):
            await starting.serving
        with pytest.raises(ConnectionRefusedError):
            await starting.connect()


async def test_parts_that_do_not_open(sqlite_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """U19: a server whose parts do not open ends, and its door is closed."""

    @asynccontextmanager
    async def broken(settings: Settings) -> AsyncIterator[Application]:
        raise Unavailable("cannot be opened")
        async with application(settings) as opened:
            yield opened

    monkeypatch.setattr(app_module, "application", broken)
    async with door(create_app(sqlite_settings), BOUNDS) as starting:
        async with asyncio.timeout(30):
            await starting.serving
        assert not starting.server.started
        with pytest.raises(ConnectionRefusedError):
            await starting.connect()


def test_parts_that_do_not_open_under_the_command(tmp_path: Path) -> None:
    """U22: `serve` says in one line why its parts do not open, though it had begun to listen."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "lexical").write_text("in the way")
    process = CommandLine(tmp_path / "data").process("serve", "--port", "0")
    try:
        _, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == exit_codes.USAGE
    assert "Traceback" not in stderr
    assert stderr.splitlines()[-1] == "error: configuration: the lexical index folder cannot be written"


def test_it_says_that_it_listens_when_it_answers(tmp_path: Path) -> None:
    """U19: the line that names the address comes when requests are answered: nobody is told to come back."""
    with running(tmp_path) as server:
        assert told(server, VOCABULARY).startswith(b"HTTP/1.1 200 ")
