"""Which elements of an HTML page are not its content: markup without text, boilerplate, hidden parts."""

from collections.abc import Mapping
from dataclasses import dataclass

from lxml import etree

HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})

_NOT_TEXT = frozenset(
    {"script", "style", "noscript", "template", "iframe", "frame", "frameset", "noframes", "object", "embed"}
    | {"applet", "canvas", "audio", "video", "svg", "map", "head", "title"}
    | {"select", "option", "datalist", "textarea", "input", "button"}
)
_NAVIGATION = frozenset({"nav", "footer"})
_BOILERPLATE = _NAVIGATION | {"header", "aside", "form", "search"}
_NAVIGATION_ROLES = frozenset({"navigation", "contentinfo"})
_BOILERPLATE_ROLES = _NAVIGATION_ROLES | {"banner", "complementary", "search"}


@dataclass(frozen=True, slots=True)
class PageParts:
    """Tags and ARIA roles to leave out of a page."""

    tags: frozenset[str]
    roles: frozenset[str]

    def leave_out(self, element: "etree._Element") -> bool:
        """Whether the element and all it holds is no content."""
        tag, attributes = element.tag, element.attrib
        if tag in self.tags:
            return not _holds_content(element)
        if tag == "dialog" and "open" not in attributes:
            return True
        return bool(attributes) and (_is_hidden(attributes) or attributes.get("role") in self.roles)


CONTENT_ONLY = PageParts(_NOT_TEXT | _BOILERPLATE, _BOILERPLATE_ROLES)
NO_NAVIGATION = PageParts(_NOT_TEXT | _NAVIGATION, _NAVIGATION_ROLES)
ALL_PARTS = PageParts(_NOT_TEXT, frozenset())


def _holds_content(element: "etree._Element") -> bool:
    """Whether a header or form is part of the content: an article's headline, a form around the page."""
    if element.tag == "header":
        return next(element.iterancestors("main", "article"), None) is not None
    return element.tag == "form" and next(element.iter(*HEADINGS), None) is not None


def _is_hidden(attributes: Mapping[str, str]) -> bool:
    if attributes.get("hidden", "until-found").lower() != "until-found":
        return True
    style = "".join(attributes.get("style", "").lower().split())
    return (
        attributes.get("aria-hidden", "").lower() == "true"
        or "display:none" in style
        or "visibility:hidden" in style
    )
