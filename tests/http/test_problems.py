"""Problem details for what HTTP itself refuses and for what fails inside; request ids."""

import json
import re
from pathlib import Path

import pytest
from litestar import get
from litestar.testing import TestClient

from service.errors import ConfigurationError
from service.settings import Settings
from service.surfaces.http.access import OPEN
from service.surfaces.http.app import create_app
from tests.http.calls import assert_problem, document
from tests.http.conftest import SteadyClient


def test_no_such_path(steady: SteadyClient) -> None:
    """U16: a path that leads nowhere is a problem too."""
    for path in (
        "/v1",
        "/v1/nothing",
        "/v2/retrieve",
        "/schema/redoc",
        "/schema/x.json",
        "/v1/items/a/b/c",
    ):
        assert_problem(steady.get(path), 404, "not_found")
    assert_problem(steady.get("/v1/systems//passages"), 404, "not_found")


def test_no_such_method(steady: SteadyClient) -> None:
    """U16: a method that a path does not have is a problem that names those that it has."""
    for method, path, allowed in (
        ("GET", "/v1/retrieve", "POST"),
        ("DELETE", "/v1/vocabulary", "PUT"),
        ("BREW", "/v1/items", "POST"),
        ("PATCH", "/health/live", "GET"),
    ):
        answer = steady.request(method, path)
        assert_problem(answer, 405, "method_not_allowed")
        assert allowed in answer.headers["allow"]


def test_too_large_a_body(steady: SteadyClient) -> None:
    """U16: a body over the bound is 413, stated in advance or not."""
    body = json.dumps({"query": "x" * 2_000_000}).encode()
    assert_problem(steady.post("/v1/retrieve", content=body), 413, "too_large")
    pieces = (body[start : start + 100_000] for start in range(0, len(body), 100_000))
    assert_problem(steady.post("/v1/retrieve", content=pieces), 413, "too_large")


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": "application/xml"},
        {"content-type": "application/json", "content-encoding": "gzip"},
        {"content-type": "application/json", "content-encoding": "br"},
    ],
)
def test_no_such_form(steady: SteadyClient, headers: dict[str, str]) -> None:
    """U16: a body that is not plain JSON is 415."""
    answer = steady.post("/v1/retrieve", content=b'{"query": "sill"}', headers=headers)
    assert_problem(answer, 415, "unsupported_media_type")


@pytest.mark.parametrize(
    "media_type", ["", "application/json", "Application/JSON; charset=utf-8", "application/vnd.api+json"]
)
def test_forms_of_json(steady: SteadyClient, media_type: str) -> None:
    """JSON may come under each of its names, and under none."""
    headers = {"content-type": media_type} if media_type else {}
    answer = steady.post("/v1/retrieve", content=b'{"query": "sill"}', headers=headers)
    assert answer.status_code == 200


def test_request_ids(steady: SteadyClient) -> None:
    """A caller's own request id comes back; one that could do harm is replaced; each request has one."""
    for given in ("abc-123", "a" * 100):
        answer = steady.get("/health/live", headers={"x-request-id": given})
        assert answer.headers["x-request-id"] == given
    for given in ("", "a b", "a" * 101, "<script>", "-", "é".encode("latin-1").decode("latin-1")):
        answer = steady.get("/health/live", headers=[(b"x-request-id", given.encode("latin-1"))])
        assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"])
    answer = steady.get("/v1/nothing", headers={"x-request-id": "mine"})
    assert assert_problem(answer, 404, "not_found")["request_id"] == "mine"


def test_answers_are_not_sniffed(steady: SteadyClient) -> None:
    """Every answer forbids guessing at its type: document text could look like a page."""
    assert steady.get("/health/live").headers["x-content-type-options"] == "nosniff"


SECRET = "SELECT password FROM /etc/shadow"  # noqa: S105 - what must not be shown


def test_unexpected_failures_tell_nothing(tmp_path: Path) -> None:
    """K4: an unexpected failure is a 500 without its message, its traceback, SQL or a path."""
    app = create_app(Settings(data_dir=tmp_path))

    @get("/boom", opt=OPEN)
    async def boom() -> None:
        raise RuntimeError(SECRET)

    @get("/misconfigured", opt=OPEN)
    async def misconfigured() -> None:
        raise ConfigurationError(SECRET)

    app.register(boom)
    app.register(misconfigured)
    with TestClient(app, raise_server_exceptions=False) as client:
        for path in ("/boom", "/misconfigured"):
            answer = client.get(path)
            assert_problem(answer, 500, "internal")
            assert "password" not in answer.text
            assert "Traceback" not in answer.text
            assert str(tmp_path) not in answer.text
        assert client.get("/health/live").status_code == 200


def test_nothing_is_kept_of_a_refused_request(steady: SteadyClient) -> None:
    """A request that is refused on its way in changes nothing."""
    steady.post("/v1/items?x=1", json=document("a", "sill"))
    assert_problem(steady.get("/v1/items/a"), 404, "item_not_found")
