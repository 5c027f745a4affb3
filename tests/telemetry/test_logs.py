"""Log lines: JSON on standard error, whoever writes them, and never a secret or a query."""

import json
import logging
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from structlog.contextvars import bound_contextvars

from service.surfaces.cli.logs import OUTSPOKEN, logs_to_stderr, strike_out
from tests.cli.commands import CommandLine

KEY = "cw_0123456789abcdef_" + "s" * 43
PASSWORD = "hunter2-of-the-database"  # noqa: S105 - what must not be seen
ASKED = "xylophone zeppelin"

Line = dict[str, object]


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    """Logging as it was before the test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {
        name: logging.getLogger(name).level for name in (*OUTSPOKEN, "alembic", "uvicorn.error", "pypdf")
    }
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)
    structlog.reset_defaults()


def lines(text: str) -> list[Line]:
    """Every line as an object."""
    return [json.loads(line) for line in text.splitlines()]


def test_own_and_foreign_lines_look_alike(capsys: pytest.CaptureFixture[str]) -> None:
    """U19: the project's lines and a library's are JSON with time, level, event and the request's id."""
    logs_to_stderr("INFO")
    with bound_contextvars(request_id="r1"):
        structlog.get_logger("own").info("it_happened", count=3)
        logging.getLogger("uvicorn.error").warning("it happened %d times", 3)
        logging.getLogger("a.library").error("it failed")
    structlog.get_logger("own").debug("nobody sees this")
    own, server, library = lines(capsys.readouterr().err)
    assert own == {
        "event": "it_happened",
        "count": 3,
        "level": "info",
        "request_id": "r1",
        "time": own["time"],
    }
    assert str(own["time"]).endswith("Z")
    for line, level, event in (
        (server, "warning", "it happened 3 times"),
        (library, "error", "it failed"),
    ):
        assert line["level"] == level
        assert line["event"] == event
        assert line["request_id"] == "r1"
        assert line["time"]
    assert library["logger"] == "a.library"


def test_a_traceback_is_one_line_without_variables(capsys: pytest.CaptureFixture[str]) -> None:
    """U19: an exception is text in one line, and the values of local variables are not in it."""
    logs_to_stderr("INFO")

    def fail(secret_word: str) -> None:
        raise ValueError(f"{len(secret_word)} characters")

    for log in (structlog.get_logger("own").exception, logging.getLogger("a.library").exception):
        try:
            fail("-".join(["never", "seen"]))
        except ValueError:
            log("it_failed")
    for line in lines(capsys.readouterr().err):
        assert "ValueError: 10 characters" in str(line["exception"])
        assert "never-seen" not in json.dumps(line)


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {KEY}",
        f'{{"authorization": "Bearer {KEY}"}}',
        f"the key {KEY} is unknown",
        f"postgresql+asyncpg://citewell:{PASSWORD}@db:5432/citewell refused",
        f"https://{PASSWORD}@collector/v1/traces",
        f"(b'api-key', b'{PASSWORD}')",
        f'{{"api_key": "{PASSWORD}", "n": 1}}',
        f"connect(password='{PASSWORD}', host='db')",
        f"api-key: {PASSWORD}",
        f"CITEWELL_QDRANT_API_KEY={PASSWORD}",
        json.dumps({"event": json.dumps({"password": PASSWORD})}),
        "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
    ],
)
def test_what_looks_like_a_credential_is_struck_out(text: str) -> None:
    """U17, U19: keys, passwords and the user part of URLs are not in the finished line; JSON stays JSON."""
    told = strike_out(None, "", text)
    assert "***" in told
    for secret in (KEY, "s" * 43, PASSWORD, "QWxhZGRpbjp"):
        assert secret not in told
    if text.startswith("{"):
        json.loads(told)


@pytest.mark.parametrize(
    "text",
    [
        '{"key_id": "0123456789abcdef", "tokens": 5, "event": "request"}',
        '{"token": null, "secret": true, "password": 1}',
        "GET http://127.0.0.1:8000/v1/items/a@b",
        "the tokens of a query",
    ],
)
def test_what_is_no_credential_stays(text: str) -> None:
    """A line without a credential is left as it was."""
    assert strike_out(None, "", text) == text


def test_libraries_that_log_their_input_are_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    """U19: at DEBUG too, no statement's values, headers or URLs come from the libraries below."""
    logs_to_stderr("DEBUG")
    for name in OUTSPOKEN:
        logging.getLogger(f"{name}.anything").debug("%s", ASKED)
        logging.getLogger(name).info("%s", ASKED)
    assert capsys.readouterr().err == ""


def test_no_secret_and_no_query_is_in_the_log_of_a_service(tmp_path: Path) -> None:
    """U17, U19: a service at DEBUG that is asked, refused and misused logs neither keys nor queries."""
    cli = CommandLine(tmp_path / "data", {"CITEWELL_LOG_LEVEL": "DEBUG"})
    key = cli.json("keys", "create", "one")["key"]
    log = tmp_path / "stderr"
    with log.open("w") as stderr:
        process = cli.process("serve", "--port", "0", stderr=stderr.fileno())
        try:
            address = _address_in(log)
            for token in (str(key), KEY, "nonsense-" + PASSWORD):
                _post(f"{address}/v1/retrieve", {"query": ASKED}, token)
                _post(f"{address}/v1/retrieve", {"query": ASKED, "cursor": ASKED, "limit": 3}, token)
                _post(f"{address}/v1/retrieve", {"query": ASKED, "limit": "many"}, token)
                _post(f"{address}/v1/items", {"title": ASKED}, token)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
    told = log.read_text()
    assert '"event": "request"' in told
    for word in (str(key), str(key).rsplit("_", 1)[-1], KEY, PASSWORD, *ASKED.split()):
        assert word not in told
    assert all(
        line.startswith(("{", "citewell starts", "citewell listens", "API keys exist"))
        for line in told.splitlines()
    )


def test_an_unreachable_database_is_told_without_its_password(tmp_path: Path) -> None:
    """U19: a service that cannot reach its database says so, and not with what it would log in."""
    url = f"postgresql://citewell:{PASSWORD}@127.0.0.1:1/citewell"
    cli = CommandLine(tmp_path / "data", {"CITEWELL_DATABASE_URL": url, "CITEWELL_LOG_LEVEL": "DEBUG"})
    process = cli.process("serve", "--port", "0")
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "error: " in stderr
    assert PASSWORD not in stdout + stderr


def _address_in(log: Path) -> str:
    """Where the service listens, once its log says so."""
    for _ in range(600):
        for line in log.read_text().splitlines():
            if "listens on " in line:
                return line.split("listens on ")[1].split()[0]
        time.sleep(0.1)
    raise AssertionError("the service never listened")


def _post(url: str, body: Line, token: str) -> None:
    """A request whatever comes of it."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310 - this test's own server
    try:
        urllib.request.urlopen(request, timeout=30).close()  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()
