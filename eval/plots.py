"""The report's plots, as SVG that needs nothing else."""

import io
from collections.abc import Sequence
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eval.measures import RECALL
from eval.report import Report, SetReport
from eval.table import ORDER
from service.search.request import Arms

COLOURS: Final = {"lexical": "#b8862b", "vector": "#4c78a8", "hybrid": "#2f7d4f"}
_BEYOND: Final = 130  # where a passage that was not found is drawn, behind rank 100


def slice_bars(one: SetReport) -> str:
    """Recall@8 of each arm with its interval: the whole set, then its slices."""
    rows = [(f"all ({one.queries})", {arm: one.arms[arm][RECALL] for arm in ORDER})]
    rows += [(f"{part.tag} ({part.queries})", part.arms) for part in one.slices]
    figure = Figure(figsize=(8.0, 1.0 + 0.75 * len(rows)))
    axes: Axes = figure.add_subplot()
    for offset, arm in enumerate(ORDER):
        intervals = [arms[arm] for _, arms in rows]
        places = [row + 0.25 * (offset - 1) for row in range(len(rows))]
        values = [i.estimate for i in intervals]
        errors = [
            [max(0.0, i.estimate - i.low) for i in intervals],
            [max(0.0, i.high - i.estimate) for i in intervals],
        ]
        axes.barh(places, values, height=0.23, xerr=errors, color=COLOURS[arm], label=arm, ecolor="#333333")
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.02)
    axes.set_xlabel("recall@8, 95 % interval")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    return _svg(figure)


def win_loss(one: SetReport) -> str:
    """Hybrid minus lexical recall@8 of every query, sorted: what is above the line was won."""
    hybrid, lexical = (one.per_query[arm][RECALL] for arm in (Arms.HYBRID.value, Arms.LEXICAL.value))
    differences = sorted((hybrid[query] - lexical[query] for query in hybrid), reverse=True)
    figure = Figure(figsize=(8.0, 2.4))
    axes: Axes = figure.add_subplot()
    colours = [COLOURS["hybrid"] if value > 0 else "#b03a3a" for value in differences]
    axes.bar(range(len(differences)), differences, width=1.0, color=colours)
    axes.axhline(0.0, color="#333333", linewidth=0.8)
    axes.set_ylim(-1.05, 1.05)
    axes.set_xlabel("queries, sorted")
    axes.set_ylabel("hybrid - lexical")
    return _svg(figure)


def rank_moves(one: SetReport) -> str:
    """The first relevant passage's rank by the better single arm and by hybrid; below the line it rose."""
    single = one.first_relevant[one.better_single_arm]
    hybrid = one.first_relevant[Arms.HYBRID.value]
    figure = Figure(figsize=(4.4, 4.4))
    axes: Axes = figure.add_subplot()
    before = [_place(single[query]) for query in hybrid]
    after = [_place(hybrid[query]) for query in hybrid]
    axes.scatter(before, after, s=14, alpha=0.45, color=COLOURS["hybrid"], linewidths=0)
    axes.plot([1, _BEYOND], [1, _BEYOND], color="#999999", linewidth=0.8)
    ticks, names = [1, 2, 4, 8, 16, 32, 64, _BEYOND], ["1", "2", "4", "8", "16", "32", "64", "none"]
    for axis in (axes.xaxis, axes.yaxis):
        axis.axes.set_xscale("log", base=2)
        axis.axes.set_yscale("log", base=2)
    axes.set_xticks(ticks, names)
    axes.set_yticks(ticks, names)
    axes.set_xlabel(f"rank by {one.better_single_arm}")
    axes.set_ylabel("rank by hybrid")
    return _svg(figure)


def latency(report: Report) -> str:
    """Median answer times by set and arm, with a whisker to the 95th percentile."""
    rows = [
        (f"{name}, {arm}", arm, arms[arm]) for name, arms in report.timings.answers.items() for arm in arms
    ]
    figure = Figure(figsize=(8.0, 0.8 + 0.3 * max(1, len(rows))))
    axes: Axes = figure.add_subplot()
    medians = [times.get("p50", 0.0) for _, _, times in rows]
    tails = [max(0.0, times.get("p95", 0.0) - times.get("p50", 0.0)) for _, _, times in rows]
    colours: Sequence[str] = [COLOURS.get(arm, "#777777") for _, arm, _ in rows]
    axes.barh(range(len(rows)), medians, xerr=[[0.0] * len(rows), tails], color=colours, ecolor="#333333")
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds an answer, median to 95th percentile")
    return _svg(figure)


def _place(rank: int | None) -> int:
    return _BEYOND if rank is None else rank


def _svg(figure: Figure) -> str:
    """The drawing alone, without XML declaration; the same figure gives the same text."""
    with mpl.rc_context({"svg.hashsalt": "citewell", "svg.fonttype": "none"}):
        file = io.StringIO()
        figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    return text[text.index("<svg") :]
