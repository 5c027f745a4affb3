"""A report as tables on a terminal."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from eval.inference import Comparison, Interval
from eval.measures import MEASURES, RECALL
from eval.report import Report, SetReport
from service.search.request import Arms

ORDER = (Arms.LEXICAL.value, Arms.VECTOR.value, Arms.HYBRID.value)


def print_report(report: Report, console: Console) -> None:
    """Every set's measures, comparisons and slices, then the decision with its reasons."""
    console.print(Text(f"model {report.model.name} ({report.model.fingerprint}), seed {report.seed}"))
    for one in report.sets:
        console.print(_measures(one))
        console.print(_comparisons(one))
        for line in _notes(one):
            console.print(Text(f"  {line}"))
    console.print(_slices(report.sets))
    if report.timings.answers:
        console.print(_times(report))
    for check in report.checks:
        console.print(Text(f"{'yes' if check.holds else 'NO '}  {check.condition}: {check.figures}"))
    console.print(Text(report.decision, style="bold green" if report.decision == "GO" else "bold red"))


def spread(interval: Interval) -> str:
    """`.812 [.770, .850]`."""
    return f"{interval.estimate:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _measures(one: SetReport) -> Table:
    table = table_of(f"{one.name}: {one.queries} queries over {one.corpus}", ("", *ORDER))
    for name in MEASURES:
        cells = [one.arms[arm][name] for arm in ORDER]
        shown = [spread(cell) if name == RECALL else f"{cell.estimate:.3f}" for cell in cells]
        table.add_row(name.replace(RECALL, "recall@8"), *shown)
    return table


def _comparisons(one: SetReport) -> Table:
    columns = ("hybrid against", "difference", "p", "wins", "ties", "losses")
    table = table_of(None, columns)
    for against in one.comparisons:
        result = against.result
        note = " (better single arm)" if against.arm == one.better_single_arm else ""
        table.add_row(f"{against.arm}{note}, {against.measure}", *_compared(result))
    return table


def _compared(result: Comparison) -> Iterable[str]:
    gain = result.difference
    yield f"{gain.estimate:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
    yield f"{result.p_value:.4f}"
    yield from (str(count) for count in (result.wins, result.ties, result.losses))


def _notes(one: SetReport) -> Iterable[str]:
    for name, found in (
        ("judgements given twice, counted once", one.findings.duplicate_judgements),
        ("judged queries without a text, not scored", one.findings.unknown_queries),
        ("judged passages that the corpus does not have, not scored", one.findings.unknown_passages),
        ("queries without judgement, not scored", one.findings.unjudged_queries),
    ):
        if found:
            yield f"{len(found)} {name}"
    if one.look_alikes:
        counts = {arm: sum(v.arm == arm for v in one.look_alikes) for arm in ORDER}
        yield "look-alikes in the top 8: " + ", ".join(f"{arm} {n}" for arm, n in counts.items())
    if one.stale:
        yield f"{len(one.stale)} stale passages in the answers"


def _slices(sets: Iterable[SetReport]) -> Table:
    table = table_of("recall@8 by slice", ("slice", "queries", *ORDER, "hybrid - lexical"))
    for one in sets:
        for part in one.slices:
            gain = part.against_lexical.difference
            table.add_row(
                f"{one.name}: {part.tag}",
                str(part.queries),
                *(f"{part.arms[arm].estimate:.3f}" for arm in ORDER),
                f"{gain.estimate:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]",
            )
    return table


def _times(report: Report) -> Table:
    timings = report.timings
    encode = timings.encode_query.get("p50")
    title = "milliseconds an answer, p50 / p95, the query's vector in memory"
    if encode is not None:
        title += f"; encoding a query {encode:.1f}"
    table = table_of(title, ("", *ORDER))
    for name, arms in timings.answers.items():
        cells = [arms.get(arm, {}) for arm in ORDER]
        shown = [f"{cell['p50']:.1f} / {cell['p95']:.1f}" if cell else "-" for cell in cells]
        table.add_row(name, *shown)
    return table


def table_of(title: str | None, columns: Iterable[str]) -> Table:
    """A plain table, its first column to the left and the others to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(Text(column), justify="left" if position == 0 else "right")
    return table
