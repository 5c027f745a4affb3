"""What shadow mode saw. The flag itself is set on the command line, by a person who says who they are."""

from typing import Annotated, Final

from litestar import get
from litestar.params import QueryParameter

from service.bootstrap import utc_now
from service.surfaces.flag_readings import (
    DEFAULT_SINCE,
    SINCE_PATTERN,
    ShadowReportOut,
    shadow_report_out,
    since_of,
)
from service.surfaces.http.access import OPERATES, Asking
from service.surfaces.http.parts import App
from service.surfaces.http.problems import responses

SHADOW_REPORT_PATH: Final = "/v1/flag/shadow-report"
SinceText = Annotated[str, QueryParameter(schema_extra={"pattern": SINCE_PATTERN, "default": DEFAULT_SINCE})]


@get(
    SHADOW_REPORT_PATH,
    tags=["operations"],
    summary="What the vector arm would have changed",
    responses=responses(),
    opt=OPERATES,
)
async def shadow_report(
    application: App, access: Asking, since: SinceText = DEFAULT_SINCE
) -> ShadowReportOut:
    """Overlap, rank moves, added latency and reasons, over the requests that were served under shadow."""
    moment = since_of(since, utc_now())
    return shadow_report_out(await application.shadow.report(access.workspace, moment))
