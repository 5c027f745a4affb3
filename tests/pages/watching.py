"""What a browser did that it should not have, and what only a browser can measure."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from playwright.async_api import Browser, ConsoleMessage, Dialog, Page, Request

WIDE: Final = (1280, 900)
NARROW: Final = (360, 740)

# The contrast of every visible text with the ground that it stands on (WCAG 2.2, 1.4.3).
CONTRASTS: Final = """
() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = (text) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3]));
  const ground = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.unshift(rgba(getComputedStyle(e).backgroundColor));
    return layers.reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const light = (rgb) => rgb
    .map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const worst = {};
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    const behind = ground(element);
    const ink = over(rgba(getComputedStyle(element).color), behind);
    const [a, b] = [light(ink), light(behind)].sort((x, y) => y - x);
    const name = element.tagName.toLowerCase() + '.' + element.className;
    worst[name] = Math.min(worst[name] ?? 21, (a + 0.05) / (b + 0.05));
  }
  return worst;
}
"""
# Everything that can be read: the text, what a list offers, and what stands in the search box.
READABLE: Final = """
() => [document.querySelector('main').innerText, document.querySelector('#q')?.value ?? '',
       ...[...document.querySelectorAll('option')].map((option) => option.text)].join(' ')
"""
UNLABELLED: Final = """
() => [...document.querySelectorAll('input:not([type=hidden]), select, textarea')]
  .filter((field) => !field.labels.length && !field.getAttribute('aria-label')).map((field) => field.outerHTML)
"""
HEADINGS: Final = "() => [...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map((h) => Number(h.tagName[1]))"
FOCUSED: Final = """
() => {
  const style = getComputedStyle(document.activeElement);
  return {name: document.activeElement.id || document.activeElement.textContent.trim(),
          width: parseFloat(style.outlineWidth), style: style.outlineStyle};
}
"""


@dataclass  # without slots: the browser's library remembers its listeners on their owner
class Tab:
    """A page in a browser with everything that went wrong in it."""

    page: Page
    url: str
    troubles: list[str] = field(default_factory=list)

    async def open(self, address: str) -> None:
        """Go to an address of the site."""
        await self.page.goto(self.url + address)

    def note(self, request: Request) -> None:
        """A request that leaves the site is trouble."""
        if not request.url.startswith((self.url, "data:")):
            self.troubles.append(f"asked for {request.url}")

    def hear(self, message: ConsoleMessage) -> None:
        """So is an error in the console; what a status other than 200 leaves there is none."""
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.troubles.append(message.text)

    async def refuse(self, dialog: Dialog) -> None:
        """And a dialog: nothing here ever opens one."""
        self.troubles.append(f"dialog {dialog.message}")
        await dialog.dismiss()


@asynccontextmanager
async def tab(
    browser: Browser,
    url: str,
    size: tuple[int, int] = WIDE,
    scheme: Literal["light", "dark"] = "light",
) -> AsyncIterator[Tab]:
    """A new tab without cookies. At the end nothing may have gone wrong in it."""
    width, height = size
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
    )
    try:
        opened = Tab(await context.new_page(), url)
        opened.page.on("request", opened.note)
        opened.page.on("console", opened.hear)
        opened.page.on("pageerror", lambda error: opened.troubles.append(str(error)))
        opened.page.on("dialog", opened.refuse)
        yield opened
        assert opened.troubles == []
    finally:
        await context.close()
