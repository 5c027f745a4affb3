"""The pages under one roof: their errors are pages, and parameters that they do not have are ignored."""

from typing import Final

from litestar import Router

from service.surfaces.http.pages.failures import PAGE_EXCEPTION_HANDLERS
from service.surfaces.http.pages.item import item_page
from service.surfaces.http.pages.reports import reports_page
from service.surfaces.http.pages.search import search_page
from service.surfaces.http.pages.sign_in import sign_in, sign_in_page, sign_out
from service.surfaces.http.pages.static_files import static_file
from service.surfaces.http.pages.status import status_page
from service.surfaces.http.pages.visit import PageRequest


async def take_any_query(_: PageRequest) -> None:
    """Addresses are pasted and carry what others appended; pages read what they know."""


PAGES: Final = Router(
    "/",
    route_handlers=[
        search_page,
        item_page,
        reports_page,
        status_page,
        sign_in_page,
        sign_in,
        sign_out,
        static_file,
    ],
    exception_handlers=PAGE_EXCEPTION_HANDLERS,
    before_request=take_any_query,
    include_in_schema=False,
)
