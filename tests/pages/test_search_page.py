"""The search page: a query tried, with both arms, ranks and fusion."""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import cast
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from litestar.testing import TestClient

from service.adapters.sql.store import SqlStore
from service.bootstrap import Application
from service.core.scoring import MAX_TERMS
from service.settings import Settings
from service.surfaces.http.app import create_app
from tests.pages.conftest import Client
from tests.pages.house import HOSTILE_HEADING, HOSTILE_TITLE, SCRIPT
from tests.pages.reading import Page

QUERY = "sill height of SL45"


def look(client: Client, address: str, status: int = 200) -> Page:
    """The page at an address, its status checked."""
    answer = client.get(address)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return Page.of(answer.text)


def test_playground(house: Client) -> None:
    """U21: a query shows both arms, ranks and fusion, and what the API answers, in the same order."""
    page = look(house, f"/?q={quote(QUERY)}")
    answer = house.post("/v1/retrieve", json={"query": QUERY, "explain": True}).json()
    shown = page.texts("//article[@class='hit']//p[@class='score']/span")
    assert shown == [one["passage_id"] for one in answer["results"]]
    assert page.texts("//section[@class='ran']//dt") == ["Lexical ran", "Vector ran"]
    first, explain = page.all("//details[@class='why']")[0], answer["results"][0]["explain"]
    told = " ".join(first.text_content().split())
    assert f"Lexical rank {explain['lexical_rank']}" in told
    assert f"Vector rank {explain['vector_rank']}" in told
    assert f"k = {explain['fusion']['k']:g}" in told
    assert f"{explain['fusion']['lexical_contribution']:.4f}" in told
    assert f"{explain['fusion']['vector_contribution']:.4f}" in told


def test_an_explained_hit(house: Client) -> None:
    """U8: a fused hit tells both ranks and scores, its terms by field, its boost, weights and k; they sum up."""
    answer = house.post("/v1/retrieve", json={"query": QUERY, "explain": True, "limit": 8}).json()
    both = [
        one for one in answer["results"] if one["explain"]["lexical_rank"] and one["explain"]["vector_rank"]
    ]
    assert both
    for one in both:
        told = one["explain"]
        fusion = told["fusion"]
        parts = {
            "lexical": fusion["lexical_weight"] / (fusion["k"] + told["lexical_rank"]),
            "vector": fusion["vector_weight"] / (fusion["k"] + told["vector_rank"]),
        }
        assert {arm: fusion[f"{arm}_contribution"] for arm in parts} == pytest.approx(parts)
        assert one["score"] == pytest.approx(sum(parts.values()))
        matches = told["matches"]
        assert matches
        assert all(match["in_title"] or match["in_heading"] or match["body_count"] for match in matches)
        assert told["lexical_score"] == pytest.approx(sum(match["score"] for match in matches))
        assert -1.0 <= told["vector_score"] <= 1.0
        assert told["tag_boost"] == 0.0


def test_matched_terms(house: Client) -> None:
    """U8: every matched term is listed with its fields, and marked in the texts on the project's own tokens."""
    page = look(house, f"/?q={quote(QUERY)}&arms=lexical&limit=3")
    terms = {one.split()[0] for one in page.texts("//details[@class='why']//tbody/tr")}
    assert terms == {"sill", "height", "sl45"}
    assert {mark.lower() for mark in page.texts("//mark")} == terms


def test_a_longer_code_is_not_marked(house: Client) -> None:
    """C18: SL45 is never marked inside SL4500."""
    page = look(house, "/?q=SL45&limit=60")
    assert "SL4500" not in page.texts("//mark")
    assert "SL45" in page.texts("//mark")
    assert any("SL4500" in text for text in page.texts("//div[@class='text']"))


def test_next_action(house: Client) -> None:
    """U5: the page's curl command, sent as it is, gives the page's passages; so does its citewell command."""
    page = look(house, f"/?q={quote('it' + chr(39) + 's the ' + QUERY)}&type=tech-doc&limit=3")
    curl, command = page.texts("//details[@class='more']//pre")[:2]
    words = shlex.split(curl)
    body = json.loads(words[words.index("-d") + 1])
    answer = house.post(words[-1].removeprefix("http://testserver.local"), json=body).json()
    assert page.texts("//article//p[@class='score']/span") == [one["passage_id"] for one in answer["results"]]
    assert shlex.split(command) == [
        *("citewell", "retrieve", "--limit", "3", "--content-type", "tech-doc", "--explain"),
        *("--", f"it's the {QUERY}"),
    ]


def test_the_next_step(house: Client) -> None:
    """U5: the next step's curl command is the API's own next_action."""
    page = look(house, f"/?q={quote(QUERY)}&limit=2")
    words = shlex.split(page.texts("//details[@class='more']//pre")[2])
    action = house.post("/v1/retrieve", json={"query": QUERY, "explain": True, "limit": 2}).json()[
        "next_action"
    ]
    assert json.loads(words[words.index("-d") + 1]) == action["http"]["body"]
    assert words[-1].endswith(action["http"]["path"])


def test_walk(house: Client) -> None:
    """U7: walking the pages gives the one-shot list, with ranks that go on, and leads back to the beginning."""
    walked: list[str] = []
    ranks: list[str] = []
    address = f"/?q={quote(QUERY)}&limit=4"
    for _ in range(3):
        page = look(house, address)
        walked += page.texts("//article//p[@class='score']/span")
        ranks += page.texts("//article/p[@class='rank']")
        (address,) = page.hrefs("//a[@rel='next']")
    at_once = look(house, f"/?q={quote(QUERY)}&limit=12")
    assert walked == at_once.texts("//article//p[@class='score']/span")
    assert ranks == [str(rank) for rank in range(1, 13)]
    assert look(house, page.hrefs("//nav[@class='pages']/a")[0]).texts("//p[@class='rank']")[0] == "1"


def test_by_system(house: Client) -> None:
    """U21: a system is picked from the vocabulary, and its passages are the API's."""
    page = look(house, "/?by=system&system=sl45&limit=5")
    answer = house.get("/v1/systems/sl45/passages?limit=5").json()
    assert page.texts("//article//p[@class='score']/span") == [one["passage_id"] for one in answer["results"]]
    assert page.all("//select[@id='system']/option[@value='sl45'][@selected]")


def test_by_selection(house: Client) -> None:
    """U8: a selection's passages are the API's, and a facet boost is told with the facet's name."""
    options = house.get("/v1/vocabulary").json()["options"]
    noise = [one["option_id"] for one in options if one["factor_id"] == "noise"]
    page = look(
        house, "/?by=selection&arms=lexical&limit=100&" + "&".join(f"option={quote(one)}" for one in noise)
    )
    body = {"option_ids": noise, "explain": True}
    assert len(page.all("//input[@name='option'][@checked]")) == len(noise)
    assert any("Facet boost" in text for text in page.texts("//details[@class='why']"))
    fused = look(house, "/?by=selection&" + "&".join(f"option={quote(one)}" for one in noise))
    answer = house.post("/v1/selection/passages", json=body).json()
    assert fused.texts("//article//p[@class='score']/span") == [
        one["passage_id"] for one in answer["results"]
    ]


def test_side_by_side(house: Client) -> None:
    """U21: side by side, every passage says where it stands in the other order."""
    page = look(house, "/?q=noise+repair+of+a+folding+wall&arms=compare")
    lexical, hybrid = (
        [one.split()[0] for one in page.texts(f"(//div[@class='side'])[{side}]//p[@class='move']")]
        for side in (1, 2)
    )
    assert lexical == hybrid == [str(rank) for rank in range(1, 9)]
    moods = {one.get("class") for one in page.all("//div[@class='side']/ol/li")}
    assert moods <= {"up", "down", "same", "new", "gone"}
    assert "both pages" in page.text("//section[@class='results']/p")
    moved_up = page.all("(//div[@class='side'])[2]//li[@class='up']//p[@class='move']/span")
    assert all(one.text_content().startswith("up ") for one in moved_up)


def test_explanations_can_be_left_out(house: Client) -> None:
    """U21: without explanations the passages stand alone, their terms still marked."""
    page = look(house, f"/?q={quote(QUERY)}&explain=off")
    assert not page.all("//details[@class='why']")
    assert page.all("//mark")
    assert "explain" not in page.texts("//details[@class='more']//pre")[0]


def test_hostile_text_is_text(house: Client) -> None:
    """U21: markup, escape codes and direction overrides of a passage are shown as text and nothing else."""
    page = look(house, "/?q=quarrelsome&limit=2")
    body = page.text("//article[@class='hit'][1]")
    for written in (
        SCRIPT,
        "&amp;",
        "\\x1b[31mred",
        "\\x9b2J",
        "\\u202edesrever\\u202c",
        "\\u2066",
        "\ufffd",
        "{{ 7*7 }}",
    ):
        assert written in body
    assert " ".join(HOSTILE_HEADING.split()) in body
    assert HOSTILE_TITLE.replace("\u202e", "\\u202e") in body
    assert not page.all("//script | //iframe | //img | //style | //@onload | //@onerror | //@onmouseover")


def test_hostile_vocabulary_is_text(house: Client) -> None:
    """U21: labels of the vocabulary are text, in lists and in check boxes."""
    assert f"{SCRIPT} wall" in look(house, "/?by=system").texts("//select[@id='system']/option")
    page = look(house, "/?by=selection&option=hostile")
    assert f"{SCRIPT} factor" in page.texts("//legend")
    assert not page.all("//script")


@pytest.mark.parametrize(
    "query", ['"><script>alert(1)</script>', "\x1b[31m \u202e x", "' onfocus='alert(1)", "%00"]
)
def test_hostile_query_comes_back_as_it_was(house: Client, query: str) -> None:
    """U21: what was typed stands in the search box unchanged, and nowhere as markup."""
    page = look(house, f"/?q={quote(query)}")
    assert page.all("//input[@id='q']")[0].get("value") == query
    assert not page.all("//script | //@onfocus")


@pytest.mark.parametrize(
    ("address", "code"),
    [
        ("/?q=x&limit=0", "invalid_limit"),
        ("/?q=x&limit=1e1", "invalid_limit"),
        ("/?q=x&type=poem", "unknown_content_type"),
        ("/?q=x&cursor=zzz", "invalid_cursor"),
        ("/?q=x&arms=all", "invalid_input"),
        ("/?by=selection&" + "&".join(f"option={n}" for n in range(201)), "invalid_input"),
    ],
)
def test_a_wrong_request_is_told_beside_the_form(house: Client, address: str, code: str) -> None:
    """U16: what is wrong with a request is told with its code, and the form stays as it was filled in."""
    page = look(house, address, status=400)
    assert page.text("//section[@role='alert']//span[@class='code']") == code
    assert page.all("//form[@role='search']")


def test_unknown_parameters_are_ignored(house: Client) -> None:
    """U21: an address may carry what others appended to it, and what stands twice counts once."""
    page = look(house, f"/?q=ignored&utm_source=mail&q={quote(QUERY)}&by=nothing")
    assert page.all("//input[@id='q']")[0].get("value") == QUERY


def test_nothing_found(house: Client) -> None:
    """U21: an answer without passages says what to do next."""
    page = look(house, "/?q=zzzunheard&arms=lexical")
    assert page.text("//section[@class='results']/h2") == "Nothing found"
    assert "fewer words" in page.text("//div[@class='empty']")
    narrow = look(house, "/?q=zzzunheard&arms=lexical&type=blog")
    assert "/?q=zzzunheard&arms=lexical" in narrow.hrefs("//div[@class='empty']//a")


@pytest.mark.parametrize("asked", ["by=system&system=unheard", "by=selection&option=unheard", "q=zzzunheard"])
def test_a_wider_search_is_the_same_search(house: Client, asked: str) -> None:
    """U21: what is tried next where a content type holds nothing is the same question, however it is asked."""
    narrow = look(house, f"/?{asked}&type=blog&arms=lexical&limit=3")
    wider = parse_qs(urlsplit(narrow.hrefs("//div[@class='empty']//a")[0]).query)
    assert wider == parse_qs(f"{asked}&arms=lexical&limit=3")


def test_empty_workspace(house: Client) -> None:
    """U21: an empty workspace says how to fill it, and its name goes along in every address."""
    page = look(house, "/?workspace=nowhere")
    assert "citewell ingest" in page.text("//section[@aria-labelledby='intro']")
    assert all("workspace=nowhere" in href for href in page.hrefs("//nav//a"))
    assert page.all("//form[@role='search']/input[@name='workspace']")[0].get("value") == "nowhere"
    assert "No vocabulary yet" in look(house, "/?workspace=nowhere&by=system").texts("//h2")


def test_links_only_where_they_live(house: Client) -> None:
    """C10: a citation is a link only where its source was seen live; a link takes no referrer along."""
    page = look(house, "/?q=unmistakablequiet&limit=1")
    (link,) = page.all("//p[@class='citation']//a")
    assert link.get("href") == "https://example.com/quiet?a=1&b=2"
    assert set(link.get("rel").split()) >= {"noreferrer", "noopener"}
    unlinked = look(house, "/?q=butyl+tape+over+rigid+packers&limit=1")
    assert not unlinked.all("//article[@class='hit']//p[@class='citation']//a")


def test_headers(house: Client) -> None:
    """U21: every page, errors and redirects too, forbids scripts, frames, referrers and storing."""
    for address in ("/", "/?q=x&limit=0", "/items/none", "/reports", "/status"):
        headers = house.get(address).headers
        policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
        assert policy == {
            "default-src": "'none'",
            "style-src": "'self'",
            "img-src": "'self' data:",
            "form-action": "'self'",
            "frame-ancestors": "'none'",
            "base-uri": "'none'",
        }
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"


def test_own_files(house: Client) -> None:
    """U21: the style sheet is the site's own, may be kept for good, and no other file can be had."""
    page = look(house, "/")
    (sheet,) = page.hrefs("//link[@rel='stylesheet']")
    answer = house.get(sheet)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/css")
    assert "immutable" in answer.headers["cache-control"]
    assert house.get("/static/pages.css?v=000000000000").headers["cache-control"] == "no-cache"
    assert house.get("/static/mark.svg").headers["content-type"] == "image/svg+xml"
    assert house.get("/static/visit.py").status_code == 404
    assert house.get("/static/..%2fvisit.py").status_code == 404


def test_pages_are_no_part_of_the_api(house: Client) -> None:
    """U16: the OpenAPI document describes the API, not the pages."""
    assert not {"/", "/status", "/reports", "/sign-in"} & set(house.get("/schema").json()["paths"])


@pytest.mark.parametrize("host", ["[bad", "x:y:z", "$(id)"])
def test_any_host(house: Client, host: str) -> None:
    """U5: whatever a client says the site is called, the page stands and its command is one quoted line."""
    answer = house.get(f"/?q={quote(QUERY)}", headers={"Host": host})
    assert answer.status_code == 200
    curl = Page.of(answer.text).texts("//details[@class='more']//pre")[0]
    assert shlex.split(curl)[-1].endswith("/v1/retrieve")


def test_a_query_of_many_words(house: Client) -> None:
    """U20: of a query with more terms than a ranking uses, those that ranked are shown and marked, no others."""
    known = look(house, f"/?q={quote(QUERY)}&limit=20").text("//section[@class='results']").lower().split()
    words = sorted({word for word in known if word.isalpha() and len(word) > 3})
    assert len(words) > 2 * MAX_TERMS
    page = look(house, f"/?q={quote(' '.join(words))}")
    shown = page.texts("//p[@class='terms']/code")
    assert 0 < len(shown) <= MAX_TERMS
    marks = {text.lower() for text in page.texts("//article//mark")}
    assert 0 < len(marks & set(words)) <= MAX_TERMS
    assert marks & set(words) <= set(shown)


def test_a_query_of_thousands_of_words(house: Client) -> None:
    """U20: a very long query has its page, and words that ranked nothing are not marked."""
    words = " ".join(f"w{number}" for number in range(6_000))
    page = look(house, f"/?q={quote(f'{QUERY} {words}')}")
    assert len(page.texts("//p[@class='terms']/code")) == MAX_TERMS
    assert not page.all("//article//mark")


def test_a_corpus_that_changed(house: Client) -> None:
    """U7: a page whose walk is older than the corpus says so and offers the beginning."""
    body = {"title": "Walk", "content_type": "blog", "source_type": "upload", "version": "1"}
    headers = {"X-Citewell-Workspace": "walk"}
    for number in range(4):
        text = [{"text": f"A walking stick, number {number}."}]
        stored = {**body, "source_filename": f"{number}.txt", "passages": text}
        assert house.post("/v1/items", json=stored, headers=headers).status_code == 201
        if number == 2:
            page = look(house, "/?q=walking&limit=1&workspace=walk")
    changed = look(house, page.hrefs("//a[@rel='next']")[0])
    assert any("corpus has changed" in notice for notice in changed.texts("//p[@class='notice']"))
    assert changed.hrefs("//nav[@class='pages']/a")[0] == "/?q=walking&limit=1&workspace=walk"


def test_an_unexpected_failure(tmp_path: Path) -> None:
    """U16: what nobody foresaw is a page with a request id, without a trace of the program."""
    app = create_app(Settings(data_dir=tmp_path))
    with TestClient(app, raise_server_exceptions=False) as client:
        opened: Application = app.state.application
        app.state.application = replace(opened, store=cast("SqlStore", None))
        answer = client.get("/")
        app.state.application = opened
    assert answer.status_code == 500
    assert "Traceback" not in answer.text
    assert "AttributeError" not in answer.text
    assert answer.headers["x-request-id"] in Page.of(answer.text).texts("//span[@class='code']")
