"""An item's page: the whole document, what is stale, and what took its place."""

from tests.pages.conftest import Client
from tests.pages.house import HOSTILE, HOSTILE_URL, LIVE, OLD, SCRIPT
from tests.pages.reading import Page
from tests.pages.test_search_page import look


def test_passages_in_order(house: Client) -> None:
    """U21: an item's page holds its passages in their order, each with an address of its own."""
    page = look(house, f"/items/{OLD}")
    item = house.get(f"/v1/items/{OLD}").json()
    assert [one.get("id") for one in page.all("//section[@class='passage']")] == [
        f"p{passage['seq']}" for passage in item["passages"]
    ]
    for passage, shown in zip(item["passages"], page.texts("//div[@class='text']"), strict=True):
        assert " ".join(passage["text"].split()) == shown


def test_stale_version(house: Client) -> None:
    """C13: a superseded item says so before anything else, and leads to the current version."""
    page = look(house, f"/items/{OLD}")
    assert page.text("//p[contains(@class,'standing')]") == "Superseded"
    assert "no search shows it" in page.text("//div[contains(@class,'notice')]")
    (current,) = page.hrefs("//div[contains(@class,'notice')]//a")
    head = look(house, current)
    assert head.text("//p[contains(@class,'standing')]") == "Current"
    assert not head.all("//div[contains(@class,'notice')]")


def test_chain(house: Client) -> None:
    """C13: the chain shows every version, newest first, one of them current and this one named."""
    page = look(house, f"/items/{OLD}")
    chain = house.get(f"/v1/items/{OLD}/supersession").json()["chain"]
    assert len(page.all("//ol[@class='chain']/li")) == len(chain)
    assert [one.get("class") for one in page.all("//ol[@class='chain']/li")] == ["current", "stale", "stale"]
    assert "shown here" in page.texts("//ol[@class='chain']/li")[-1]


def test_retired_item(house: Client) -> None:
    """C13: a retired item without a successor says that nothing took its place."""
    page = look(house, "/items/spring-promotion-2023")
    assert page.text("//p[contains(@class,'standing')]").startswith("Retired on ")
    assert "nothing took its place" in page.text("//div[contains(@class,'notice')]")


def test_tags(house: Client) -> None:
    """U21: an item's tags stand there with their status and who decided."""
    tags = look(house, "/items/blog-lakeside-house").texts("//ul[@class='tags']/li")
    assert any("accepted" in tag and "Ingrid" in tag for tag in tags)
    assert any("proposed" in tag for tag in tags)


def test_links(house: Client) -> None:
    """C10: the source is a link only where it was seen live, its address escaped."""
    assert "https://example.com/quiet?a=1&b=2" in look(house, f"/items/{LIVE}").hrefs("//main//a")
    page = look(house, f"/items/{HOSTILE}")
    assert HOSTILE_URL in page.hrefs("//main//a")
    assert not page.all("//main//b[not(ancestor::aside)] | //script | //@onmouseover")
    assert SCRIPT in page.text("//section[@id='p0']")


def test_missing_item(house: Client) -> None:
    """U16: an item that is not there is a page with the problem's code and a way on."""
    page = look(house, "/items/nothing", status=404)
    assert "item_not_found" in page.texts("//span[@class='code']")
    assert "/" in page.hrefs("//main//a")
    assert look(house, "/items/%00", status=404).all("//h1")


def test_foreign_workspace(house: Client) -> None:
    """U18: another workspace's item is not there."""
    answer = house.get(f"/items/{OLD}?workspace=other")
    assert answer.status_code == 404
    assert "installation" not in Page.of(answer.text).text("//main")


def test_long_item(house: Client) -> None:
    """U3: a long item comes in pages, and a place that is none is the beginning."""
    passages = [{"text": f"Paragraph {number} of a long document."} for number in range(450)]
    body = {
        "item_id": "long",
        "title": "Long",
        "content_type": "tech-doc",
        "source_type": "upload",
        "source_filename": "long.txt",
        "version": "1",
        "passages": passages,
    }
    headers = {"X-Citewell-Workspace": "long"}
    assert house.post("/v1/items", json=body, headers=headers).status_code == 201
    seen: list[str] = []
    address = "/items/long?workspace=long"
    while address:
        page = look(house, address)
        seen += page.texts("//div[@class='text']")
        address = next(iter(page.hrefs("//a[@rel='next']")), "")
    assert seen == [passage["text"] for passage in passages]
    assert page.all("//a[@rel='prev']")
    for wrong in ("-1", "999999", "x", "9" * 400):
        shown = look(house, f"/items/long?workspace=long&from={wrong}").texts("//div[@class='text']")
        assert shown[0] == passages[0]["text"]
