"""Templates into answers, each with the headers that every page has."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from litestar import MediaType, Response

from service.surfaces.http.pages.visible import shown
from service.surfaces.http.pages.visit import Visit

STATIC: Final = Path(__file__).parent / "static"
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "img-src 'self' data:",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def page(
    template: str,
    visit: Visit,
    view: object,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response[str]:
    """A page of a template, given what it shows (`view`) and who looks at it (`visit`)."""
    text = _environment().get_template(template).render(visit=visit, view=view)
    return Response(
        text, status_code=status, media_type=MediaType.HTML, headers={**HEADERS, **(headers or {})}
    )


@cache
def asset(name: str) -> str:
    """The address of a static file. It changes with the contents, so that browsers may keep the file for good."""
    return f"/static/{name}?v={hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("service.surfaces.http.pages"),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["asset"] = asset
    environment.filters["figure"] = figure
    environment.filters["sentence"] = sentence
    environment.filters["share"] = share
    environment.filters["moment"] = moment
    return environment


def figure(value: float) -> str:
    """A score with as many digits as tell it from its neighbours."""
    return f"{value:.2f}" if abs(value) >= 10 else f"{value:.4f}"


def share(value: float, whole: float) -> str:
    """How much of a whole a value is, from 0.0 to 100.0: the length of a bar."""
    return f"{100.0 * min(1.0, max(0.0, value / whole)):.1f}" if whole > 0.0 else "0.0"


def sentence(text: str) -> str:
    """A text with the beginning and the end of a sentence."""
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "!", "?")) else ".")


def moment(value: datetime) -> str:
    """A moment for people: to the minute, in its own time zone, which is UTC everywhere here."""
    return value.strftime("%Y-%m-%d %H:%M UTC")
