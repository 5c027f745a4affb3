"""Every error as RFC 9457 problem details, whatever raised it."""

from collections.abc import Mapping
from http import HTTPStatus
from traceback import format_exception
from typing import Final

import msgspec
import structlog
from litestar import Request, Response
from litestar.datastructures import State
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi.datastructures import ResponseSpec
from litestar.types import ExceptionHandlersMap
from structlog.contextvars import get_contextvars

from service.errors import (
    CitewellError,
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    RateLimited,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from service.surfaces.http.access_log import note_code
from service.surfaces.http.causes import causes_of
from service.surfaces.wire import content_type_refused, limit_refused

_log = structlog.get_logger(__name__)

PROBLEM_JSON: Final = "application/problem+json"
REQUEST_ID: Final = "request_id"  # the name in log lines and in problem details

_STATUS_OF: Final[tuple[tuple[type[CitewellError], int], ...]] = (
    (InvalidInput, 400),
    (TooLarge, 413),
    (Unauthenticated, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Conflict, 409),
    (RateLimited, 429),
    (Unavailable, 503),
)
# Codes of what HTTP itself refuses; the others are those of `service.errors`.
_CODE_OF: Final[Mapping[int, str]] = {
    400: InvalidInput.code,
    404: NotFound.code,
    405: "method_not_allowed",
    413: TooLarge.code,
    415: "unsupported_media_type",
    503: Unavailable.code,
}
_DETAIL_OF: Final[Mapping[int, str]] = {
    404: "there is nothing at this path",
    405: "the path exists, but not with this method; the Allow header has those that do",
    413: "the request body is larger than this service reads",
}
_UNEXPECTED: Final = "the service failed to answer; its log has the reason under the request id"


class FieldProblem(msgspec.Struct, kw_only=True):
    """One of several things that are wrong with a request."""

    field: str
    detail: str


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """RFC 9457 problem details, with a stable `code` beside them."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    field: str | None = None
    errors: list[FieldProblem] | None = None
    request_id: str | None = None


def problem(status: int, code: str, title: str, detail: str) -> Problem:
    """A problem of the request that is being answered; its code goes into the request's line in the log."""
    note_code(code)
    request_id = get_contextvars().get(REQUEST_ID)
    return Problem(
        type=f"urn:citewell:problem:{code}",
        title=title,
        status=status,
        detail=detail,
        code=code,
        request_id=request_id if isinstance(request_id, str) else None,
    )


def problem_of(error: CitewellError) -> Problem:
    """A use case's own error; one that no caller can cause is told without its detail."""
    status = next((status for kind, status in _STATUS_OF if isinstance(error, kind)), 500)
    if status == 500:
        return problem(status, CitewellError.code, CitewellError.title, _UNEXPECTED)
    found = problem(status, error.code, error.title, error.detail)
    if isinstance(error, InvalidInput):
        found.field = error.field
    return found


def problem_response(found: Problem, headers: Mapping[str, str] | None = None) -> Response[Problem]:
    """The answer that carries a problem."""
    return Response(found, status_code=found.status, media_type=PROBLEM_JSON, headers=dict(headers or {}))


def headers_of(error: CitewellError) -> dict[str, str]:
    """When to come back, for an error that passes by itself; how to say who one is, for a stranger."""
    if isinstance(error, Unauthenticated):
        return {"WWW-Authenticate": 'Bearer realm="citewell"'}
    if isinstance(error, Unavailable | RateLimited):
        return {"Retry-After": str(error.retry_after)}
    return {}


def responses(*statuses: int) -> dict[int, ResponseSpec]:
    """For the OpenAPI document: the problems of a route, beside those that every route can have."""
    return {
        status: ResponseSpec(
            Problem,
            description=HTTPStatus(status).phrase,
            media_type=PROBLEM_JSON,
            generate_examples=False,
        )
        for status in sorted({400, 401, 403, 429, 500, 503, *statuses})
    }


def _on_own_error(_: Request[None, None, State], error: CitewellError) -> Response[Problem]:
    found = problem_of(error)
    if found.status == 500:
        _log_failure(error)
    log_unavailable(error)
    return problem_response(found, headers_of(error))


def _on_validation(_: Request[None, None, State], error: ValidationException) -> Response[Problem]:
    """A parameter that cannot be read, or a body that is missing."""
    wrong = [
        FieldProblem(field=str(entry["key"]), detail=str(entry["message"]))
        for entry in (error.extra if isinstance(error.extra, list) else [])
        if isinstance(entry, dict) and "key" in entry
    ]
    if any(entry.field == "data" for entry in wrong):
        return problem_response(problem_of(InvalidInput("the request needs a JSON body")))
    for entry in wrong:
        if entry.field == "limit":
            return problem_response(problem_of(limit_refused()))
        if entry.field == "content_type":
            return problem_response(problem_of(content_type_refused()))
    first = wrong[0] if wrong else FieldProblem(field="", detail="the request cannot be read")
    found = problem_of(InvalidInput(f"{first.field}: {first.detail}", field=first.field or None))
    found.errors = wrong if len(wrong) > 1 else None
    return problem_response(found)


def _on_http(request: Request[None, None, State], error: HTTPException) -> Response[Problem]:
    """What the framework refuses before a handler sees it."""
    status = error.status_code
    if status >= 500 and status not in _CODE_OF:
        return _on_unexpected(request, error)
    phrase = HTTPStatus(status).phrase
    found = problem(
        status, _CODE_OF.get(status, InvalidInput.code), phrase, _DETAIL_OF.get(status, error.detail)
    )
    return problem_response(found, error.headers)


def _on_unexpected(_: Request[None, None, State], error: Exception) -> Response[Problem]:
    _log_failure(error)
    return problem_response(problem(500, CitewellError.code, CitewellError.title, _UNEXPECTED))


def log_unavailable(error: CitewellError) -> None:
    """For an operator, why a request was answered 503: its caller is told no more than that."""
    if isinstance(error, Unavailable):
        _log.warning("unavailable", code=error.code, detail=error.detail, causes=causes_of(error))


def _log_failure(error: Exception) -> None:
    """The traceback as text: renderers that print local variables would print what callers sent."""
    _log.error("http_failure", traceback="".join(format_exception(error)))


EXCEPTION_HANDLERS: Final[ExceptionHandlersMap] = {
    CitewellError: _on_own_error,
    ValidationException: _on_validation,
    HTTPException: _on_http,
    Exception: _on_unexpected,
}
