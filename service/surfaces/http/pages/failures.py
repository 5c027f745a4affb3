"""Errors on pages: a page that says what happened and what to do, with the same code that programs get."""

from dataclasses import dataclass
from traceback import format_exception
from typing import Final
from urllib.parse import urlencode

import structlog
from litestar import Response
from litestar.exceptions import HTTPException
from litestar.response import Redirect
from litestar.types import ExceptionHandlersMap

from service.errors import CitewellError, InvalidInput, NotFound, TooLarge, Unauthenticated
from service.surfaces.http.pages.rendering import HEADERS, page
from service.surfaces.http.pages.visit import PageRequest, address_of, visit_of
from service.surfaces.http.problems import Problem, headers_of, log_unavailable, problem_of

SIGN_IN_PATH: Final = "/sign-in"
_log = structlog.get_logger(__name__)
_NEXT: Final = {
    400: "Go back and change what was sent; sending it again unchanged will not help.",
    401: "Sign in with an API key.",
    403: "Sign in with a key that may do this, or choose a workspace that your key reaches.",
    404: "It may be in another workspace. Search for it instead.",
    429: "Wait a moment, then reload the page.",
    500: "Reload the page. If it happens again, tell whoever runs this service the request id.",
    503: "Wait a moment, then reload the page. Nothing was lost.",
}


@dataclass(frozen=True, slots=True)
class FailureView:
    """A problem and what a person does about it."""

    problem: Problem
    next: str


def failure_page(request: PageRequest, found: Problem, error: CitewellError | None = None) -> Response[str]:
    """The page of a problem."""
    view = FailureView(found, _NEXT.get(found.status, _NEXT[400]))
    headers = {} if error is None else headers_of(error)
    return page("failure.html", visit_of(request), view, status=found.status, headers=headers)


def _on_own_error(request: PageRequest, error: CitewellError) -> Response[str]:
    found = problem_of(error)
    if found.status == 500:
        _log_failure(error)
    log_unavailable(error)
    return failure_page(request, found, error)


def _on_stranger(request: PageRequest, _: Unauthenticated) -> Response[None]:
    """Whoever needs a key is shown where to give one, and comes back afterwards."""
    wanted = address_of(request)
    to = SIGN_IN_PATH if wanted == "/" else f"{SIGN_IN_PATH}?{urlencode({'next': wanted})}"
    return Redirect(to, status_code=303, headers=dict(HEADERS))


def _on_http(request: PageRequest, error: HTTPException) -> Response[str]:
    """What the framework refuses before a page sees it."""
    if error.status_code >= 500:
        return _on_unexpected(request, error)
    match error.status_code:
        case 404:
            return failure_page(request, problem_of(NotFound("there is nothing at this address")))
        case 413:
            return failure_page(request, problem_of(TooLarge("this is longer than any page reads")))
        case _:
            return failure_page(request, problem_of(InvalidInput(error.detail or "it cannot be read")))


def _on_unexpected(request: PageRequest, error: Exception) -> Response[str]:
    _log_failure(error)
    return failure_page(request, problem_of(CitewellError("unexpected")))


def _log_failure(error: Exception) -> None:
    """The traceback as text: renderers that print local variables would print what callers sent."""
    _log.error("page_failure", traceback="".join(format_exception(error)))


PAGE_EXCEPTION_HANDLERS: Final[ExceptionHandlersMap] = {
    Unauthenticated: _on_stranger,
    CitewellError: _on_own_error,
    HTTPException: _on_http,
    Exception: _on_unexpected,
}
