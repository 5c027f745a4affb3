"""An HTML page as a test reads it."""

from collections.abc import Sequence
from dataclasses import dataclass

from lxml import html


@dataclass(frozen=True, slots=True)
class Page:
    """A parsed page."""

    root: html.HtmlElement

    @classmethod
    def of(cls, text: str) -> "Page":
        """The page that a browser would build of the text."""
        return cls(html.document_fromstring(text))

    def all(self, path: str) -> Sequence[html.HtmlElement]:
        """The elements at an XPath."""
        found: Sequence[html.HtmlElement] = self.root.xpath(path)
        return found

    def text(self, path: str) -> str:
        """The text of the first element at an XPath, its white space joined."""
        return " ".join(str(self.all(path)[0].text_content()).split())

    def texts(self, path: str) -> list[str]:
        """The texts of all of them."""
        return [" ".join(str(one.text_content()).split()) for one in self.all(path)]

    def hrefs(self, path: str = "//a") -> list[str]:
        """Where the links at an XPath lead."""
        return [str(one.get("href")) for one in self.all(path)]
