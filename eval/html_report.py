"""The report as one HTML file that needs no network: no script, no font and no image from elsewhere."""

from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from eval.plots import latency, rank_moves, slice_bars, win_loss
from eval.report import Report
from eval.table import ORDER

SHOWN_DISCORDANT: Final = 100  # a set; the JSON report has all
_TEMPLATE: Final = "report.html"


def html_of(report: Report) -> str:
    """The page; every text from data is escaped."""
    environment = Environment(
        loader=PackageLoader("eval"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawings = [
        # drawn here, of numbers and escaped names
        {
            "bars": Markup(slice_bars(one)),  # noqa: S704
            "wins": Markup(win_loss(one)),  # noqa: S704
            "moves": Markup(rank_moves(one)),  # noqa: S704
        }
        for one in report.sets
    ]
    return environment.get_template(_TEMPLATE).render(
        report=report,
        sets=list(zip(report.sets, drawings, strict=True)),
        arms=ORDER,
        latency=Markup(latency(report)) if report.timings.answers else None,  # noqa: S704
        shown=SHOWN_DISCORDANT,
    )
