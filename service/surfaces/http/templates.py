"""The names under which requests are counted: the templates of the routes that their paths lead to."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from litestar import Litestar
from litestar.routes import HTTPRoute
from litestar.utils import normalize_path


@dataclass(frozen=True, slots=True)
class _Known:
    """The templates of so many routes: those without a parameter, and the others with their pattern."""

    routes: int
    plain: frozenset[str]
    patterns: Sequence[tuple[re.Pattern[str], str]]


class RouteTemplates:
    """Which template a path has, whether or not the request was routed: refused ones are not, nor is a 405."""

    def __init__(self, app: Litestar) -> None:
        self._app = app
        self._known = _Known(-1, frozenset(), ())

    def of(self, path: str) -> str | None:
        """The template of a path; None for one that leads nowhere."""
        if self._known.routes != len(self._app.routes):
            self._known = _read(self._app)
        wanted = normalize_path(path)
        if wanted in self._known.plain:
            return wanted
        return next((name for pattern, name in self._known.patterns if pattern.fullmatch(wanted)), None)


def _read(app: Litestar) -> _Known:
    """As the router does it, a path that is spelled out comes before one with a parameter."""
    routes = [route for route in app.routes if isinstance(route, HTTPRoute)]
    plain = frozenset(route.path_format for route in routes if not route.path_parameters)
    patterns = [(_pattern(route), route.path_format) for route in routes if route.path_parameters]
    return _Known(len(app.routes), plain, patterns)


def _pattern(route: HTTPRoute) -> re.Pattern[str]:
    parts = (re.escape(part) if isinstance(part, str) else "[^/]+" for part in route.path_components)
    return re.compile("/" + "/".join(parts))
