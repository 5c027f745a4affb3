"""The pages in a real browser: by keyboard, on a narrow screen, in the dark, and under attack."""

from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Browser

from service.settings import Settings
from service.surfaces.http.app import create_app
from tests.pages.house import HOSTILE, OLD, SCRIPT, Site, site
from tests.pages.keys import make_keys
from tests.pages.watching import CONTRASTS, FOCUSED, HEADINGS, NARROW, READABLE, UNLABELLED, Tab, tab

pytestmark = pytest.mark.anyio

QUERY = "/?q=sill+height+of+SL45"
PAGES = (
    "/",
    QUERY,
    "/?q=quarrelsome",
    "/?q=noise+repair+of+a+folding+wall&arms=compare",
    "/?by=system&system=sl45",
    "/?by=selection",
    "/?by=selection&option=hostile",
    "/?q=zzzunheard&arms=lexical",
    "/?q=a&limit=0",
    "/?workspace=nowhere",
    f"/items/{OLD}",
    f"/items/{HOSTILE}",
    "/items/nothing",
    "/reports",
    "/status",
    "/sign-in",
)


async def unfold(shown: Tab) -> None:
    """Open every panel of a page."""
    await shown.page.evaluate("() => document.querySelectorAll('main details').forEach((d) => d.open = true)")


async def test_by_keyboard(browser: Browser, served: Site) -> None:
    """U21: searched, explained and followed to the current version with the keyboard alone."""
    async with tab(browser, served.url) as shown:
        page = shown.page
        await shown.open("/")
        await page.locator("input:focus").wait_for()  # the page puts the focus there by itself
        await page.keyboard.type("carriages R-20.04")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/?q=carriages*")
        await page.locator("h3 a").first.focus()
        await page.keyboard.press("Tab")
        while await page.evaluate("document.activeElement.tagName") != "SUMMARY":
            await page.keyboard.press("Tab")
        panel = page.locator("details.why").first
        assert await panel.get_attribute("open") is None
        await page.keyboard.press("Enter")
        assert await panel.locator("table").is_visible()
        await page.locator("h3 a").first.focus()
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/items/**")
        await shown.open(f"/items/{OLD}")
        await page.get_by_role("link", name="Read the current version").focus()
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/items/*rev-c*")
        assert await page.locator(".standing").inner_text() == "Current"


async def test_skip_link_and_focus(browser: Browser, served: Site) -> None:
    """U21: the first stop leads past the head of the page, and every stop can be seen."""
    async with tab(browser, served.url) as shown:
        await shown.open("/status")
        await shown.page.keyboard.press("Tab")
        assert (await shown.page.evaluate(FOCUSED))["name"] == "Skip to the content"
        assert (await shown.page.locator(".skip").bounding_box() or {"y": -1})["y"] >= 0
        await shown.page.keyboard.press("Enter")
        assert await shown.page.evaluate("document.activeElement.id") == "main"
        await shown.open(QUERY)
        for _ in range(12):
            await shown.page.keyboard.press("Tab")
            focused = await shown.page.evaluate(FOCUSED)
            assert focused["style"] != "none", focused
            assert focused["width"] >= 2, focused


async def test_narrow(browser: Browser, served: Site) -> None:
    """U21: no page is wider than a screen of 360 pixels, with every panel open."""
    async with tab(browser, served.url, NARROW) as shown:
        for address in PAGES:
            await shown.open(address)
            await unfold(shown)
            assert await shown.page.evaluate("document.scrollingElement.scrollWidth") <= 360, address


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_contrast(browser: Browser, served: Site, scheme: Literal["light", "dark"]) -> None:
    """U21: every text stands out from its ground by 4.5 to 1 at least, by day and by night."""
    grounds = set()
    async with tab(browser, served.url, scheme=scheme) as shown:
        for address in PAGES:
            await shown.open(address)
            await unfold(shown)
            worst: dict[str, float] = await shown.page.evaluate(CONTRASTS)
            assert {name: ratio for name, ratio in worst.items() if ratio < 4.5} == {}, address
            grounds.add(await shown.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == {"rgb(251, 250, 247)" if scheme == "light" else "rgb(22, 22, 20)"}


async def test_structure(browser: Browser, served: Site) -> None:
    """U21: each page has a language, one main part, one first heading, no gap in headings, labels, no script."""
    async with tab(browser, served.url) as shown:
        titles = set()
        for address in PAGES:
            await shown.open(address)
            levels: list[int] = await shown.page.evaluate(HEADINGS)
            assert levels.count(1) == 1, address
            assert all(after - before <= 1 for before, after in zip([0, *levels], levels, strict=False)), (
                address,
                levels,
            )
            assert await shown.page.evaluate(UNLABELLED) == [], address
            assert await shown.page.evaluate("document.documentElement.lang") == "en"
            assert await shown.page.locator("main").count() == 1
            assert await shown.page.evaluate("document.scripts.length") == 0
            ids: list[str] = await shown.page.evaluate(
                "() => [...document.querySelectorAll('[id]')].map((e) => e.id)"
            )
            assert len(ids) == len(set(ids)), address
            titles.add(await shown.page.title())
        assert all(title.endswith("· citewell") for title in titles)


async def test_hostile(browser: Browser, served: Site) -> None:
    """U21: hostile texts run nothing, load nothing and break no policy; they can be read."""
    async with tab(browser, served.url) as shown:
        for address in (
            "/?q=quarrelsome",
            f"/items/{HOSTILE}",
            "/?by=selection",
            "/?by=system",
            f"/?q={SCRIPT}",
        ):
            await shown.open(address)
            await unfold(shown)
            assert await shown.page.locator("script, iframe, img, main style").count() == 0
            assert SCRIPT in await shown.page.evaluate(READABLE)


async def test_a_script_would_not_run(browser: Browser, served: Site) -> None:
    """U21: a script that came into a page all the same would not run."""
    async with tab(browser, served.url) as shown:
        await shown.open("/")
        await shown.page.evaluate(
            "document.body.append(Object.assign(document.createElement('script'), {text: 'x=1'}))"
        )
        assert await shown.page.evaluate("typeof x") == "undefined"
        assert any("Content Security Policy" in trouble for trouble in shown.troubles)
        shown.troubles.clear()


async def test_form(browser: Browser, served: Site) -> None:
    """U21: the form's every field reaches the address, so that a search can be passed on."""
    async with tab(browser, served.url) as shown:
        page = shown.page
        await shown.open("/?by=selection")
        await page.get_by_label("Traffic noise").check()
        await page.get_by_label("Content type").select_option("blog")
        await page.get_by_label("Passages").fill("3")
        await page.get_by_role("button", name="Search").click()
        await page.wait_for_url("**option=**")
        assert await page.locator("article.hit").count() <= 3
        address = page.url
        assert {"type=blog", "limit=3", "by=selection"} <= set(address.split("?")[1].split("&"))
        await page.reload()
        assert page.url == address
        assert "Traffic noise" in await page.locator(".picker summary").inner_text()


async def test_signing_in(browser: Browser, tmp_path: Path) -> None:
    """U17: a person signs in, comes back to the page that was wanted, changes the workspace and signs out."""
    keys = await make_keys(Settings(data_dir=tmp_path / "keyed"))
    with site(keys.settings, create_app(keys.settings)) as running:
        async with tab(browser, running.url) as shown:
            page = shown.page
            await shown.open("/?q=wanted")
            await page.get_by_label("API key").fill("cw_wrong")
            await page.keyboard.press("Enter")
            await page.get_by_role("alert").wait_for()
            await page.get_by_label("API key").fill(keys.reader)
            await page.get_by_label("Workspace").fill("north")
            await page.get_by_role("button", name="Sign in").click()
            await page.wait_for_url("**/?q=wanted")
            await page.locator(".workspace summary").click()
            await page.get_by_label("Workspace", exact=True).fill("south")
            await page.get_by_role("button", name="Switch").click()
            await page.wait_for_url("**/?workspace=south")
            assert await page.evaluate("document.cookie") == ""
            await page.locator("a.key").click()
            await page.get_by_role("button", name="Sign out").click()
            await page.wait_for_url("**/sign-in")
            assert await page.context.cookies() == []
            await shown.open("/")
            assert page.url.endswith("/sign-in")
