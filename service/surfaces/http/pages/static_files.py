"""The pages' own style sheet and mark."""

from typing import Final

from litestar import Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

from service.surfaces.http.access import OPEN
from service.surfaces.http.pages.rendering import STATIC, asset
from service.surfaces.http.pages.visit import PageRequest

_TYPES: Final = {"pages.css": "text/css", "mark.svg": "image/svg+xml"}
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; sandbox"  # the mark has a style of its own
_FOR_GOOD: Final = "public, max-age=31536000, immutable"
_FOR_NOW: Final = "no-cache"


@get("/static/{name:str}", opt=OPEN, sync_to_thread=True)
def static_file(request: PageRequest, name: FromPath[str]) -> Response[bytes]:
    """One of the files by its name. Raises NotFoundException.

    A browser keeps it for good only under the address of these contents: while versions are exchanged, a page
    of the one may ask the other.
    """
    if name not in _TYPES:
        raise NotFoundException
    is_this = asset(name).endswith(f"?v={request.query_params.get('v', '')}")
    headers = {"Cache-Control": _FOR_GOOD if is_this else _FOR_NOW, "Content-Security-Policy": _POLICY}
    return Response((STATIC / name).read_bytes(), media_type=_TYPES[name], headers=headers)
