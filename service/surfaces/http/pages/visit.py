"""Who looks at a page, and how its links keep to the workspace that was chosen."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from litestar import Request
from litestar.datastructures import State

from service.core.access import Access, KeyScope
from service.surfaces.http.access import PAGE_WORKSPACE

PageRequest = Request[None, None, State]
Parameters = tuple[tuple[str, str], ...]


_HOST: Final = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Visit:
    """A request for a page. `access` is None for somebody who is not let in, or not yet."""

    path: str
    access: Access | None = None
    named_workspace: str | None = None  # stands in the address, and goes on standing there

    @property
    def workspace(self) -> str:
        """The workspace that the page shows."""
        return "" if self.access is None else self.access.workspace

    @property
    def is_keyless(self) -> bool:
        """Whether nobody needs a key here."""
        return self.access is not None and self.access.key_id is None

    @property
    def may_read(self) -> bool:
        """Whether searches are answered."""
        return self.access is not None and KeyScope.READ in self.access.scopes

    @property
    def may_operate(self) -> bool:
        """Whether reports, status and single arms are shown."""
        return self.access is not None and KeyScope.OPERATE in self.access.scopes

    def href(self, path: str, parameters: Parameters = ()) -> str:
        """A path of this site with its parameters, in the same workspace."""
        named = () if self.named_workspace is None else ((PAGE_WORKSPACE, self.named_workspace),)
        query = urlencode((*parameters, *named))
        return f"{path}?{query}" if query else path


def visit_of(request: PageRequest, access: Access | None = None) -> Visit:
    """The visit that a request is."""
    known = request.state.get("access") if access is None else access
    return Visit(
        request.scope["path"],
        known if isinstance(known, Access) else None,
        request.query_params.get(PAGE_WORKSPACE) or None,
    )


def site_of(request: PageRequest) -> str:
    """The address that the visitor has this site under; a Host that is none is replaced by a plain one."""
    host = request.headers.get("host", "")
    return f"{request.scope['scheme']}://{host if _HOST.fullmatch(host) else 'localhost'}"


def address_of(request: PageRequest) -> str:
    """The request's own path and query, to come back to."""
    path, query = quote(request.scope["path"]), request.scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path
