"""Tables of comparisons and sweeps."""

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from eval.baseline import Change
from eval.measures import mean
from eval.models import compare_models
from eval.report import Report
from eval.sweep import GridRow, HeldOut, SetScores
from eval.table import table_of


def changes_table(changes: Iterable[Change]) -> Table:
    """Every measure before and now; what fell is marked."""
    table = table_of("against the baseline", ("set, arm, measure", "before", "now", "change", ""))
    for one in changes:
        moved = one.now - one.before
        mark = Text("fell", style="bold red") if one.fell else Text("")
        name = f"{one.set_name}, {one.arm}, {one.measure}"
        table.add_row(Text(name), f"{one.before:.3f}", f"{one.now:.3f}", f"{moved:+.3f}", mark)
    return table


def models_table(reports: Sequence[Report]) -> Table:
    """Models side by side; cost in milliseconds on this machine."""
    columns = (
        "set",
        "model",
        "vector",
        "hybrid",
        "against the first",
        "ms a passage",
        "ms a query",
        "ms an answer",
    )
    table = table_of("models, recall@8", columns)
    for row in compare_models(reports):
        against = "-"
        if row.against_first is not None:
            gain = row.against_first.difference
            against = f"{gain.estimate:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
        costs = (row.encode_passage_ms, row.encode_query_ms, row.answer_ms)
        shown = ["-" if cost is None else f"{cost:.1f}" for cost in costs]
        table.add_row(
            row.set_name, Text(row.model), f"{row.vector:.3f}", f"{row.hybrid:.3f}", against, *shown
        )
    return table


def sweep_tables(scores: Sequence[SetScores], rows: Sequence[GridRow], held: HeldOut) -> Iterable[Table]:
    """A method's best grid rows over all queries, and its held-out result."""
    names = [one.name for one in scores]
    table = table_of(
        f"{held.method}: recall@8 on all queries", ("setting", *names, "mean", "gain", "worst", "safe")
    )
    for arm in ("lexical", "vector"):
        means = [mean(one.lexical if arm == "lexical" else one.vector) for one in scores]
        table.add_row(arm, *(f"{value:.3f}" for value in means), f"{sum(means) / len(means):.3f}", "", "", "")
    for row in rows:
        cells = [f"{row.by_set[name]:.3f}" for name in names]
        safe = "yes" if row.never_below else ""
        table.add_row(row.label, *cells, f"{row.mean:.3f}", f"{row.gain:+.3f}", f"{row.worst:+.3f}", safe)
    yield table
    table = table_of(
        f"{held.method}: held out, against the better single arm", ("set", "recall@8", "difference")
    )
    for name, result in held.by_set.items():
        gain = result.difference
        shown = f"{gain.estimate:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
        table.add_row(name, f"{held.means[name]:.3f}", shown)
    gains = [result.difference.estimate for result in held.by_set.values()]
    overall = sum(held.means.values()) / len(held.means)
    table.add_row("mean", f"{overall:.3f}", f"{sum(gains) / len(gains):+.3f}")
    table.add_row("chosen", Text(", ".join(dict.fromkeys(held.chosen))), "")
    yield table
