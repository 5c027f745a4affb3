"""`citewell eval` and `python -m eval`: run, sweep, compare, models and report."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from eval.artifacts import write_all
from eval.baseline import TOLERANCE, Change, compare_reports
from eval.errors import GO, MEANINGS, NO_GO, REGRESSED, EvaluationError
from eval.evaluation import SEED
from eval.html_report import html_of
from eval.outputs import read_kept, write_outputs
from eval.report import read_report
from eval.running import RunPlan, run_plan
from eval.sets import NamedSet, open_set
from eval.sweep import FOLDS, grid, grid_rows, held_out, score_grid
from eval.table import print_report
from eval.tables import changes_table, models_table, sweep_tables
from eval.watching import watched
from service.bootstrap import fusion_settings
from service.core.fusion import FusionMethod, FusionSettings
from service.settings import Settings, read_settings
from service.surfaces.cli.logs import logs_to_stderr
from service.surfaces.cli.program import Ended
from service.surfaces.cli.terminal import output, tell

DECIDING: Final = (NamedSet.PARAPHRASE.value, NamedSet.EXACT.value, NamedSet.STALE_TRAP.value)
METHODS: Final = [one.value for one in FusionMethod]
CACHE: Final = "eval-cache"  # in the data directory


@contextmanager
def own_statuses() -> Iterator[None]:
    """Every kind of bad input ends with its own exit status. Raises Ended."""
    try:
        yield
    except EvaluationError as error:
        raise Ended(error.code, error.detail, error.exit_status) from error


def _statuses() -> str:
    return "\n".join(["\b", "Exit status:", *(f"  {code:<4} {text}" for code, text in MEANINGS.items())])


@click.group(epilog=_statuses())
def group() -> None:
    """Measure the arms on judged queries, and decide GO or NO-GO."""


@group.command()
@click.option(
    "--set", "names", multiple=True, metavar="NAME|FOLDER", help="Sets to measure; may be repeated."
)
@click.option("--model", help="Embedding model; default: the setting's.")
@click.option(
    "--k", type=click.IntRange(1, 10_000), help="k of reciprocal rank fusion; default: the setting's."
)
@click.option("--weights", metavar="LEXICAL:VECTOR", help="Fusion weights; default: the settings'.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for all files of the run."
)
@click.option("--cache", type=click.Path(path_type=Path, file_okay=False), help="Folder of kept embeddings.")
@click.option("--seed", type=int, default=SEED, show_default=True, help="Seed of the resampling.")
@click.option(
    "--paraphrase", default=NamedSet.PARAPHRASE.value, show_default=True, help="The set of the bar."
)
@click.option("--exact", default=NamedSet.EXACT.value, show_default=True, help="The exact-token set.")
@click.option("--baseline", type=click.Path(path_type=Path), help="A stored report that must be held.")
@click.option("--tolerance", type=click.FloatRange(0.0, 1.0), default=TOLERANCE, show_default=True)
@click.pass_context
def run(
    ctx: click.Context,
    names: Sequence[str],
    model: str | None,
    k: int | None,
    weights: str | None,
    out: Path | None,
    cache: Path | None,
    seed: int,
    paraphrase: str,
    exact: str,
    baseline: Path | None,
    tolerance: float,
) -> None:
    """Measure sets and decide. The sets that decide are measured whether or not they are named."""
    with own_statuses():
        settings = read_settings()
        stored = None if baseline is None else read_report(baseline)
        deciding = (paraphrase, exact, NamedSet.STALE_TRAP.value)
        sets = [open_set(name) for name in dict.fromkeys((*deciding, *names))]
        plan = RunPlan(
            sets=sets,
            model=model or settings.embedding_model,
            fusion=_fusion(settings, k, weights),
            cache_dir=cache or settings.data_dir / CACHE,
            settings=settings,
            seed=seed,
            paraphrase=sets[0].name,
            exact=sets[1].name,
        )
        logs_to_stderr("WARNING")
        with watched() as progress:
            measured = asyncio.run(run_plan(plan, progress))
        changes = [] if stored is None else compare_reports(stored, measured.report, tolerance)
        if out is not None:
            write_outputs(measured, out)
            tell(f"written to {out}")
        print_report(measured.report, output())
        if changes:
            output().print(changes_table(changes))
        ctx.exit(_status(measured.report.decision, changes))


def _status(decision: str, changes: Sequence[Change]) -> int:
    if decision != "GO":
        return NO_GO
    return REGRESSED if any(change.fell for change in changes) else GO


def _fusion(settings: Settings, k: int | None, weights: str | None) -> FusionSettings:
    lexical, vector = settings.fusion_lexical_weight, settings.fusion_vector_weight
    if weights is not None:
        lexical, vector = _weights(weights)
    return replace(
        fusion_settings(settings),
        k=settings.fusion_k if k is None else k,
        lexical_weight=lexical,
        vector_weight=vector,
    )


def _weights(text: str) -> tuple[float, float]:
    first, _, second = text.partition(":")
    try:
        lexical, vector = float(first), float(second)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not LEXICAL:VECTOR", param_hint="--weights") from error
    if not (0 <= lexical < float("inf") and 0 <= vector < float("inf") and lexical + vector > 0):
        raise click.BadParameter("weights are at least 0 and not both 0", param_hint="--weights")
    return lexical, vector


@group.command()
@click.argument("rankings", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--method", "methods", multiple=True, type=click.Choice(METHODS), help="Default: all.")
@click.option("--folds", type=click.IntRange(2, 20), default=FOLDS, show_default=True)
@click.option("--seed", type=int, default=SEED, show_default=True)
@click.option(
    "--top", type=click.IntRange(1), default=12, show_default=True, help="Grid rows shown a method."
)
def sweep(rankings: Sequence[Path], methods: Sequence[str], folds: int, seed: int, top: int) -> None:
    """Try fusion settings on kept rankings (a run's --out folders), scored on held-out folds."""
    with own_statuses():
        sets = [one for path in rankings for one in read_kept(path).sets]
        unique = list({one.name: one for one in sets}.values())
        candidates = grid([FusionMethod(name) for name in methods] or list(FusionMethod))
        with watched() as progress:
            scores = score_grid(unique, candidates, lambda done, whole: progress("sweep", done, whole))
        for method in dict.fromkeys(candidate.method for candidate in candidates):
            labels = [candidate.label for candidate in candidates if candidate.method is method]
            rows = [row for row in grid_rows(scores, seed) if row.label in labels][:top]
            held = held_out(scores, labels, method.value, seed, folds)
            for table in sweep_tables(scores, rows, held):
                output().print(table)


@group.command()
@click.argument("baseline", type=click.Path(path_type=Path))
@click.argument("report", type=click.Path(path_type=Path))
@click.option("--tolerance", type=click.FloatRange(0.0, 1.0), default=TOLERANCE, show_default=True)
@click.pass_context
def compare(ctx: click.Context, baseline: Path, report: Path, tolerance: float) -> None:
    """Compare a report with a stored one; a fall past the tolerance is a failure."""
    with own_statuses():
        changes = compare_reports(read_report(baseline), read_report(report), tolerance)
        output().print(changes_table(changes))
        ctx.exit(REGRESSED if any(change.fell for change in changes) else GO)


@group.command()
@click.argument("models", nargs=-1, required=True)
@click.option("--set", "names", multiple=True, metavar="NAME|FOLDER", help="Default: the sets that decide.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder; a folder a model inside."
)
@click.option("--cache", type=click.Path(path_type=Path, file_okay=False), help="Folder of kept embeddings.")
@click.option("--seed", type=int, default=SEED, show_default=True)
def models(
    models: Sequence[str], names: Sequence[str], out: Path | None, cache: Path | None, seed: int
) -> None:
    """Compare models on the same sets, with the cost of encoding and the time of an answer."""
    with own_statuses():
        settings = read_settings()
        sets = [open_set(name) for name in dict.fromkeys(names or DECIDING)]
        cache_dir = cache or settings.data_dir / CACHE
        logs_to_stderr("WARNING")
        reports = []
        for number, model in enumerate(models, start=1):
            plan = RunPlan(sets, model, _fusion(settings, None, None), cache_dir, settings, seed)
            with watched() as progress:
                measured = asyncio.run(run_plan(plan, progress))
            if out is not None:
                write_outputs(measured, out / f"{number}-{Path(model).name}")
            reports.append(measured.report)
        output().print(models_table(reports))


@group.command()
@click.argument("report", type=click.Path(path_type=Path))
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write the page here.")
def report(report: Path, html: Path | None) -> None:
    """Show a stored report again."""
    with own_statuses():
        stored = read_report(report)
        if html is not None:
            write_all(html.parent, {html.name: html_of(stored).encode()})
        print_report(stored, output())
