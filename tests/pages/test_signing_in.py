"""Who sees pages where keys exist: signing in and out, scopes and workspaces."""

from urllib.parse import quote

import httpx
import pytest

from tests.pages.conftest import Client
from tests.pages.keys import Keys
from tests.pages.reading import Page

SAME = {"Sec-Fetch-Site": "same-origin"}


def sign_in(client: Client, key: str, **fields: str) -> httpx.Response:
    """Send the form as a browser on the site's own page does."""
    return client.post("/sign-in", data={"key": key, **fields}, headers=SAME)


@pytest.mark.parametrize("address", ["/", "/?q=a&limit=3", "/items/x", "/reports", "/status"])
def test_strangers_are_shown_the_door(locked: Client, address: str) -> None:
    """U17: without a key every page sends a visitor to the sign-in form, which leads back."""
    answer = locked.get(address)
    assert answer.status_code == 303
    assert answer.headers["location"] == (
        "/sign-in" if address == "/" else f"/sign-in?next={quote(address, safe='')}"
    )
    form = Page.of(locked.get(answer.headers["location"]).text)
    assert form.all("//input[@name='next']")[0].get("value") == address


def test_signing_in(locked: Client, keys: Keys) -> None:
    """U17: a good key is kept in a cookie that neither scripts nor other sites can use."""
    answer = sign_in(locked, f" {keys.operator} ", next="/?q=a")
    assert (answer.status_code, answer.headers["location"]) == (303, "/?q=a")
    cookie = answer.headers.get_list("set-cookie")[0]
    assert cookie.startswith(f"citewell_key={keys.operator}; ")
    assert {part.strip().lower() for part in cookie.split(";")[1:]} == {
        "httponly",
        "path=/",
        "samesite=strict",
    }
    page = Page.of(locked.get("/?q=a").text)
    assert page.text("//a[@class='key']").endswith("olga")


def test_https(locked: Client, keys: Keys) -> None:
    """U17: over https the cookie never travels without it."""
    answer = locked.post("https://testserver.local/sign-in", data={"key": keys.operator}, headers=SAME)
    assert "secure" in answer.headers.get_list("set-cookie")[0].lower()


@pytest.mark.parametrize("key", ["", "nonsense", "cw_0123456789abcdef_" + "A" * 43, "\x00", "<script>"])
def test_a_bad_key(locked: Client, key: str) -> None:
    """U17: a key that is none is refused with 401, kept nowhere and not shown again."""
    answer = sign_in(locked, key)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    page = Page.of(answer.text)
    assert page.all("//p[@role='alert']")
    assert page.all("//input[@name='key']")[0].get("value") is None
    assert not page.all("//script")


def test_a_revoked_cookie(locked: Client) -> None:
    """U17: a cookie with a key that does not count any more leads to the form, which can forget it."""
    locked.cookies.set("citewell_key", "cw_0123456789abcdef_" + "A" * 43)
    answer = locked.get("/")
    assert answer.status_code == 303
    assert Page.of(locked.get("/sign-in").text).all("//form[@action='/sign-out']")


def test_several_workspaces(locked: Client, keys: Keys) -> None:
    """U18: a key of several workspaces chooses one; the address counts before what was chosen at sign-in."""
    refused = sign_in(locked, keys.reader)
    assert refused.status_code == 403
    assert "workspace" in Page.of(refused.text).text("//p[@role='alert']")
    assert sign_in(locked, keys.reader, workspace="south").status_code == 303
    assert Page.of(locked.get("/").text).text("//details[@class='workspace']/summary") == "Workspace south"
    north = Page.of(locked.get("/?workspace=north").text)
    assert north.text("//details[@class='workspace']/summary") == "Workspace north"
    assert locked.get("/?workspace=default").status_code == 403


def test_no_workspace_of_another_key(locked: Client, keys: Keys) -> None:
    """U18: a workspace that the key does not reach is a 403 page, whether it exists or not."""
    assert sign_in(locked, keys.reader, workspace="south").status_code == 303
    known, unknown = locked.get("/?workspace=default"), locked.get("/?workspace=nowhere")
    assert known.status_code == unknown.status_code == 403
    assert Page.of(known.text).text("//main//p[@class='lead']") == Page.of(unknown.text).text(
        "//main//p[@class='lead']"
    )


def test_scopes(locked: Client, keys: Keys) -> None:
    """U17: operators' pages and single arms need the scope operate; searching needs read."""
    sign_in(locked, keys.reader, workspace="south")
    assert locked.get("/?q=a").status_code == 200
    for closed in ("/reports", "/status", "/?q=a&arms=lexical", "/?q=a&arms=compare"):
        answer = locked.get(closed)
        assert answer.status_code == 403
        assert "forbidden" in Page.of(answer.text).texts("//span[@class='code']")
    reader = Page.of(locked.get("/").text)
    assert not reader.all("//select[@id='arms']")
    assert reader.texts("//nav[@aria-label='Pages']//a") == ["Search"]
    sign_in(locked, keys.watcher)
    assert locked.get("/").status_code == 403
    assert locked.get("/status").status_code == 200
    assert Page.of(locked.get("/status").text).texts("//nav[@aria-label='Pages']//a") == ["Reports", "Status"]


def test_names_of_keys_are_text(locked: Client, keys: Keys) -> None:
    """U21: a key's name is text."""
    sign_in(locked, keys.reader, workspace="south")
    assert Page.of(locked.get("/").text).text("//a[@class='key']").endswith("rita <b>")


def test_the_api_takes_no_cookie(locked: Client, keys: Keys) -> None:
    """U17: what a browser sends by itself opens no API route, so that no other site can use it there."""
    sign_in(locked, keys.operator)
    assert locked.get("/").status_code == 200
    for call in (
        locked.get("/v1/vocabulary"),
        locked.get("/metrics"),
        locked.post("/v1/retrieve", json={"query": "a"}),
        locked.post("/v1/items/x/retire"),
    ):
        assert call.status_code == 401
    with_key = {"Authorization": f"Bearer {keys.reader}"}
    locked.cookies.set("citewell_workspace", "south")
    assert locked.get("/v1/vocabulary", headers=with_key).status_code == 403


def test_signing_out(locked: Client, keys: Keys) -> None:
    """U17: signing out forgets key and workspace; it is a POST, never a link."""
    sign_in(locked, keys.reader, workspace="south")
    assert locked.get("/sign-out").status_code == 405
    answer = locked.post("/sign-out", headers=SAME)
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert len(answer.headers.get_list("set-cookie")) == 2
    assert locked.get("/").status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Origin": "http://testserver.local.elsewhere.example"},
        {"Origin": "http://testserver.local", "Sec-Fetch-Site": "cross-site"},
    ],
)
@pytest.mark.parametrize("path", ["/sign-in", "/sign-out"])
def test_forms_of_other_sites(locked: Client, keys: Keys, path: str, headers: dict[str, str]) -> None:
    """U17: a form that another site sent changes nothing."""
    answer = locked.post(path, data={"key": keys.operator}, headers=headers)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert "another site" in Page.of(answer.text).text("//main")


def test_own_forms(locked: Client, keys: Keys) -> None:
    """U17: a browser without fetch metadata says its origin, and that is enough."""
    own = {"Origin": "http://testserver.local"}
    assert locked.post("/sign-in", data={"key": keys.operator}, headers=own).status_code == 303
    assert locked.get("/sign-in").headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize(
    "wanted",
    [
        "//elsewhere.example",
        "/\\elsewhere.example",
        "https://elsewhere.example",
        "javascript:alert(1)",
        "/\n/x",
        "/sign-in",
    ],
)
def test_no_way_out(locked: Client, keys: Keys, wanted: str) -> None:
    """U17: signing in leads to a page of this site and nowhere else."""
    assert sign_in(locked, keys.operator, next=wanted).headers["location"] == "/"


def test_form_bounds(locked: Client) -> None:
    """U16: a form of another kind, damaged or far too long is a page with a problem."""
    assert locked.post("/sign-in", json={"key": "x"}, headers=SAME).status_code == 400
    form = {"Content-Type": "application/x-www-form-urlencoded", **SAME}
    assert locked.post("/sign-in", content=b"key=%ff", headers=form).status_code == 400
    assert locked.post("/sign-in", content=b"&".join([b"a=1"] * 50), headers=form).status_code == 400
    assert locked.post("/sign-in", content=b"key=" + b"x" * 20_000, headers=form).status_code == 413


def test_without_keys(house: Client) -> None:
    """U17: where no key was ever made nobody needs one, and the page says so."""
    assert "No key is needed" in house.get("/sign-in").text
    answer = house.post("/sign-in", data={"key": "x"}, headers=SAME, follow_redirects=False)
    assert answer.status_code == 303
    assert "set-cookie" not in answer.headers
