"""The reports' page: what shadow mode saw, and what the evaluation decided."""

import asyncio
from dataclasses import dataclass
from typing import Final

from litestar import Response, get

from service.bootstrap import utc_now
from service.core.rollout import FlagState
from service.search.rank_moves import MoveKind
from service.search.shadow_report import ShadowReport
from service.surfaces.flag_readings import DEFAULT_SINCE, since_of
from service.surfaces.http.access import FOR_PAGES, OPERATES, Asking
from service.surfaces.http.pages.evaluation import (
    Evaluation,
    Kept,
    arm_order,
    evaluation_folder,
    read_evaluation,
)
from service.surfaces.http.pages.rendering import page
from service.surfaces.http.pages.visit import PageRequest, visit_of
from service.surfaces.http.pages.words import flag_told, reason_told
from service.surfaces.http.parts import App

PERIODS: Final = (("24h", "24 hours"), ("7d", "7 days"), ("30d", "30 days"))
_MOVES: Final = {
    MoveKind.ENTERED: "entered the top 8",
    MoveKind.UP_FAR: "up 3 places or more",
    MoveKind.UP: "up 1 or 2 places",
    MoveKind.DOWN: "down 1 or 2 places",
    MoveKind.DOWN_FAR: "down 3 places or more",
    MoveKind.LEFT: "left the top 8",
}
_CONDITIONS: Final = {
    "bar": "The hybrid reaches the bar on paraphrased queries",
    "better-than-lexical": "The hybrid is better than lexical alone, beyond chance",
    "exact-tokens": "Exact codes and names are found as well as before",
    "stale": "No stale passage is ever shown",
}


@dataclass(frozen=True, slots=True)
class ShadowView:
    """Shadow mode's report with its counts in words."""

    report: ShadowReport
    moves: tuple[tuple[str, int], ...]
    degraded: tuple[tuple[str, int], ...]
    most_moves: int


@dataclass(frozen=True, slots=True)
class ReportsView:
    """Both reports. `tables` holds each set's name with the order of its arms."""

    since: str
    periods: tuple[tuple[str, str], ...]
    flag: FlagState
    flag_meaning: str
    shadow: ShadowView
    evaluation: Evaluation | None
    kept: Kept
    arms: dict[str, tuple[str, ...]]
    conditions: dict[str, str]


@get("/reports", opt={**OPERATES, FOR_PAGES: True})
async def reports_page(request: PageRequest, application: App, access: Asking) -> Response[str]:
    """Shadow mode's comparisons of the workspace, and the evaluation of this instance."""
    since = request.query_params.get("since", "") or DEFAULT_SINCE
    moment = since_of(since, utc_now())
    report = await application.shadow.report(access.workspace, moment)
    kept = await asyncio.to_thread(read_evaluation, evaluation_folder(application.settings))
    state = await application.flag.state(access.workspace)
    measured = [] if kept.report is None else kept.report.sets
    view = ReportsView(
        since=since,
        periods=PERIODS,
        flag=state,
        flag_meaning=flag_told(state),
        shadow=_shadow(report),
        evaluation=kept.report,
        kept=kept,
        arms={one.name: arm_order(one.arms) for one in measured},
        conditions=_CONDITIONS,
    )
    return page("reports.html", visit_of(request, access), view)


def _shadow(report: ShadowReport) -> ShadowView:
    return ShadowView(
        report=report,
        moves=tuple((_MOVES[kind], count) for kind, count in report.moves.items()),
        degraded=tuple((reason_told(reason), count) for reason, count in report.degraded.items()),
        most_moves=max(report.moves.values(), default=0),
    )
