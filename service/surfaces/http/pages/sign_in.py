"""Signing in and out: the one thing that pages change is the visitor's own cookies."""

import re
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import parse_qs, quote

from litestar import Response, get, post
from litestar.datastructures import Cookie
from litestar.response import Redirect

from service.core.access import Access
from service.errors import CitewellError, Forbidden, InvalidInput, RateLimited, Unauthenticated
from service.surfaces.http.access import (
    FOR_PAGES,
    KEY_COOKIE,
    OPEN,
    PAGE_WORKSPACE,
    WORKSPACE_COOKIE,
    Connection,
    admitted,
)
from service.surfaces.http.origin import check_same_origin
from service.surfaces.http.pages.failures import SIGN_IN_PATH
from service.surfaces.http.pages.rendering import HEADERS, page
from service.surfaces.http.pages.visit import PageRequest, Visit, visit_of
from service.surfaces.http.parts import App
from service.surfaces.http.problems import headers_of, problem_of

MAX_FORM: Final = 10_000  # bytes
_MAX_FIELDS: Final = 10
_FORM: Final = "application/x-www-form-urlencoded"
# A path of this site: two slashes, or a slash and a backslash, would lead to another.
_OWN_PATH: Final = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*")
# Under no-referrer a browser says "Origin: null" even to the page's own site, and the check below needs it.
_SAME_ORIGIN: Final = {"Referrer-Policy": "same-origin"}


@dataclass(frozen=True, slots=True)
class SignInView:
    """The form. `refusal` says why the visitor was not let in; the key itself is never shown again."""

    next: str
    workspace: str
    refusal: str
    has_cookie: bool
    scopes: tuple[str, ...]


@get(SIGN_IN_PATH, opt={**OPEN, FOR_PAGES: True})
async def sign_in_page(request: PageRequest) -> Response[str]:
    """The form, or who the visitor is and how to leave."""
    try:
        access, refusal = await admitted(cast("Connection", request), from_cookie=True), ""
    except Unauthenticated:
        access, refusal = None, ""
    except (Forbidden, InvalidInput, RateLimited) as error:
        access, refusal = None, error.detail
    return _page(request, access, refusal, next_of(request.query_params.get("next", "")))


@post(SIGN_IN_PATH, status_code=200, opt={**OPEN, FOR_PAGES: True}, request_max_body_size=MAX_FORM)
async def sign_in(request: PageRequest, application: App) -> Response[str] | Response[None]:
    """Check a key and, where it is good, keep it in a cookie that no script and no other site can use."""
    check_same_origin(request.headers)
    fields = await _fields(request)
    key, workspace = fields.get("key", "").strip(), fields.get("workspace", "").strip()
    following = next_of(fields.get("next", ""))
    try:
        access = await application.gatekeeper.admit(key, workspace or None)
    except (Unauthenticated, Forbidden, InvalidInput, RateLimited) as error:
        return _page(request, None, error.detail, following, workspace=workspace, error=error)
    if access.key_id is None:  # nobody needs a key here
        return Redirect(following, status_code=303, headers=dict(HEADERS))
    chosen = _cookie(request, WORKSPACE_COOKIE, quote(workspace, safe=""))
    cookies = [
        _cookie(request, KEY_COOKIE, key),
        chosen if workspace else _no_cookie(request, WORKSPACE_COOKIE),
    ]
    return Redirect(following, status_code=303, headers=dict(HEADERS), cookies=cookies)


@post("/sign-out", status_code=200, opt={**OPEN, FOR_PAGES: True}, request_max_body_size=MAX_FORM)
async def sign_out(request: PageRequest) -> Response[None]:
    """Forget the key."""
    check_same_origin(request.headers)
    cookies = [_no_cookie(request, KEY_COOKIE), _no_cookie(request, WORKSPACE_COOKIE)]
    return Redirect(SIGN_IN_PATH, status_code=303, headers=dict(HEADERS), cookies=cookies)


def next_of(wanted: str) -> str:
    """Where to go after signing in: a path of this site, else the search page."""
    is_own = _OWN_PATH.fullmatch(wanted) is not None and not wanted.startswith(SIGN_IN_PATH)
    return wanted if is_own else "/"


def _page(
    request: PageRequest,
    access: Access | None,
    refusal: str,
    following: str,
    *,
    workspace: str = "",
    error: CitewellError | None = None,
) -> Response[str]:
    visit = visit_of(request, access) if access is not None else Visit(request.scope["path"])
    view = SignInView(
        next=following,
        workspace=workspace or request.query_params.get(PAGE_WORKSPACE, ""),
        refusal=refusal,
        has_cookie=KEY_COOKIE in request.cookies,
        scopes=() if access is None else tuple(sorted(scope.value for scope in access.scopes)),
    )
    status = 200 if error is None else problem_of(error).status
    headers = {**({} if error is None else headers_of(error)), **_SAME_ORIGIN}
    return page("sign_in.html", visit, view, status=status, headers=headers)


async def _fields(request: PageRequest) -> dict[str, str]:
    """The form's fields, the first of each. Raises InvalidInput."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != _FORM:
        raise InvalidInput(f"the form is sent as {_FORM}")
    try:
        fields = parse_qs((await request.body()).decode(), max_num_fields=_MAX_FIELDS, errors="strict")
    except ValueError as error:
        raise InvalidInput("the form cannot be read") from error
    return {name: values[0] for name, values in fields.items()}


def _cookie(request: PageRequest, name: str, value: str) -> Cookie:
    """A cookie of this browser session, for this site's own pages alone."""
    is_secure = request.scope["scheme"] == "https"
    return Cookie(name, value=value, path="/", httponly=True, samesite="strict", secure=is_secure)


def _no_cookie(request: PageRequest, name: str) -> Cookie:
    """The cookie's end."""
    is_secure = request.scope["scheme"] == "https"
    return Cookie(name, value="", path="/", max_age=0, httponly=True, samesite="strict", secure=is_secure)
