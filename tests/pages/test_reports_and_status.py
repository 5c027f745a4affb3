"""The operators' pages: what shadow mode saw, what the evaluation decided, and how the parts are."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from litestar.testing import TestClient

from eval.report import report_bytes
from service.settings import Settings
from service.surfaces.http.app import create_app
from tests.pages.conftest import Client
from tests.pages.house import json_of, report
from tests.pages.test_search_page import look


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the evaluation's report is looked for."""
    (tmp_path / "kept").mkdir()
    return tmp_path / "kept"


@pytest.fixture
def plain(tmp_path: Path, folder: Path) -> Iterator[Client]:
    """An empty service that looks for reports in the folder."""
    settings = Settings(data_dir=tmp_path / "data", evaluation_dir=folder)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


def test_evaluation(house: Client) -> None:
    """U21: the page shows the report that the evaluation writes: verdict, conditions, arms and intervals."""
    page = look(house, "/reports")
    assert page.text("//p[contains(@class,'verdict')]") == "GO"
    assert page.texts("//table[1]//thead/tr/th")[:4] == ["Measure", "lexical", "vector", "hybrid"]
    cells = page.texts("//section[@aria-labelledby='evaluation']//table[1]//tbody/tr[1]/*")
    assert cells[:2] == ["recall@8", "0.612 0.551 to 0.671"]
    assert any("+0.229" in text for text in page.texts("//section[@aria-labelledby='evaluation']//td"))
    assert "minilm <b>" in page.text("//section[@aria-labelledby='evaluation']")


def test_shadow(house: Client) -> None:
    """U21: shadow mode's report stands in words, and a period can be chosen."""
    page = look(house, "/reports?since=24h")
    text = page.text("//section[@aria-labelledby='shadow']")
    assert "2 requests were ranked both ways; 1 could be compared" in text
    assert "75 %" in text
    assert "1 × The query was not embedded within the time" in text
    assert page.all("//option[@value='24h'][@selected]")
    assert look(house, "/reports?since=soon", status=400).all("//h1")


def test_no_report(plain: Client) -> None:
    """U21: without a report the page says how to get one."""
    text = look(plain, "/reports").text("//main")
    assert "No evaluation was kept here yet" in text
    assert "citewell eval run --out" in text
    assert "Nothing was compared" in text


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "damaged"),
        (b"\xff\xfe{", "damaged"),
        (b'{"schema": "citewell-eval-1"}', "damaged"),
        (b'{"schema": "citewell-eval-9"}', "another version"),
        (b"[1]", "damaged"),
    ],
)
def test_a_report_that_cannot_be_read(plain: Client, folder: Path, raw: bytes, said: str) -> None:
    """U21: a damaged report, or one of another version, is told; the page stands."""
    (folder / "report.json").write_bytes(raw)
    assert said in look(plain, "/reports").text("//section[@aria-labelledby='evaluation']")


def test_a_report_that_is_a_folder(plain: Client, folder: Path) -> None:
    """U21: what is no file is no report."""
    (folder / "report.json").mkdir()
    assert "No evaluation" in look(plain, "/reports").text("//main")


def test_fields_of_a_later_report(plain: Client, folder: Path) -> None:
    """U21: a report of the same schema with more fields than the page knows is shown."""
    more = json_of(report_bytes(report()))
    (folder / "report.json").write_bytes(report_bytes(report()).replace(b"{", b'{"later": [1, 2],', 1))
    assert more["decision"] == "GO"
    assert look(plain, "/reports").text("//p[contains(@class,'verdict')]") == "GO"


def test_status(house: Client) -> None:
    """U19: the status page tells each part with its state, the index's lag, and the flag with its meaning."""
    house.get("/?q=sill")
    page = look(house, "/status")
    assert page.texts("//section[@aria-labelledby='parts']//dt") == [
        "Store ready",
        "Lexical index ready",
        "Vectors off",
    ]
    behind = page.text("//section[@aria-labelledby='behind']")
    assert "up to date" in behind
    assert "CITEWELL_VECTORS=on" in behind
    assert "off for default, held by store. Every answer is lexical." in page.text(
        "//section[@aria-labelledby='flag']"
    )


def test_status_of_a_fresh_process(plain: Client) -> None:
    """U19: the status page answers before anything was asked, and passes no judgement on what it cannot know."""
    assert "Searches are answered" in look(plain, "/status").text("//main")
