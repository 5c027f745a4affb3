"""`citewell flag`: who gets the vector arm, who decided so, and what shadow mode saw."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from service.adapters.sql.rollout import SqlShadowLedger
from service.bootstrap import flag_use_cases, open_store, utc_now
from service.core.rollout import OFF, FlagState, parse_flag
from service.errors import InvalidInput
from service.ingest.flag import FlagOrder, FlagOverview
from service.model import DEFAULT_WORKSPACE, Workspace
from service.ports.flag import FlagChange, FlagHolder
from service.search.shadow_report import Latency, ShadowReport
from service.search.shadow_report import shadow_report as report_on_shadow
from service.settings import Settings, read_settings
from service.surfaces.cli.options import Command, json_option, workspace_of, workspace_option
from service.surfaces.cli.session import run
from service.surfaces.cli.tagging import by_option, login_name
from service.surfaces.cli.terminal import counted, say, say_json, say_table, tell
from service.surfaces.flag_readings import DEFAULT_SINCE, change_out, flag_out, shadow_report_out, since_of
from service.surfaces.wire import utc_text

CONNECTING_S = 3.0  # flagd's provider connects in the background
DEFAULT = "(default)"


@click.group()
def flag() -> None:
    """Show and set who gets the vector arm."""


def change_options(command: Command) -> Command:
    """What every change of the flag is accounted for by."""
    for option in (
        click.option("--reason", required=True, metavar="TEXT", help="Why; it is kept with the change."),
        click.option(
            "--report",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Evaluation report that says GO; needed past shadow.",
        ),
        click.option("--force", is_flag=True, help="Past shadow without one; the change is kept as forced."),
        click.option("--workspace", metavar="NAME", help="Only this workspace; without it, the default."),
        by_option,
        json_option,
    ):
        command = option(command)
    return command


@flag.command()
@workspace_option
@json_option
def show(*, workspace: str | None, as_json: bool) -> None:
    """Show the flag as a workspace sees it, every stored state and the newest changes."""
    settings = read_settings()
    overview = run(_show(settings, workspace_of(settings, workspace)))
    if as_json:
        say_json(flag_out(overview))
    else:
        _say_overview(overview)


@flag.command("set")
@click.argument("state")
@click.option("--everywhere", is_flag=True, help="With off: the default and every workspace, at once.")
@click.option("--if-unset", is_flag=True, help="Only where no state is stored yet; else nothing changes.")
@change_options
def set_(
    *,
    state: str,
    everywhere: bool,
    if_unset: bool,
    workspace: str | None,
    by: str | None,
    reason: str,
    report: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Set the flag to off, shadow, a percentage such as 12.5%, or on."""
    order = _order(parse_flag(state), workspace, by, reason, report, force=force)
    if if_unset and (stored := run(_stored(read_settings(), order.workspace))) is not None:
        tell(f"{_scope(order.workspace)}: {stored} is stored; nothing changes")
    elif everywhere:
        _switch_off(order, as_json=as_json)
    else:
        _carry_out(order, as_json=as_json)


@flag.command()
@change_options
def unset(
    *, workspace: str | None, by: str | None, reason: str, report: Path | None, force: bool, as_json: bool
) -> None:
    """Remove a stored state: the default counts again, and behind that the environment's value."""
    _carry_out(_order(None, workspace, by, reason, report, force=force), as_json=as_json)


@flag.command("shadow-report")
@click.option("--since", default=DEFAULT_SINCE, show_default=True, metavar="AGE", help="Such as 24h or 7d.")
@workspace_option
@json_option
def shadow_report(*, since: str, workspace: str | None, as_json: bool) -> None:
    """Show what the vector arm would have changed."""
    settings = read_settings()
    report = run(_shadow_report(settings, workspace_of(settings, workspace), since))
    if as_json:
        say_json(shadow_report_out(report))
    else:
        _say_report(report)


def _order(
    state: FlagState | None,
    workspace: str | None,
    by: str | None,
    reason: str,
    report: Path | None,
    *,
    force: bool,
) -> FlagOrder:
    return FlagOrder(
        workspace=None if workspace is None else Workspace(workspace),
        state=state,
        who=by or login_name(),
        reason=reason,
        report=report,
        force=force,
    )


def _carry_out(order: FlagOrder, *, as_json: bool) -> None:
    change, overrides = run(_changed(read_settings(), order))
    if as_json:
        say_json(change_out(change))
    else:
        _say_change(change)
    if order.workspace is None and overrides:
        kept = ", ".join(f"{name} {state}" for name, state in overrides.items())
        tell(f"workspaces with a state of their own keep it: {kept}")


def _switch_off(order: FlagOrder, *, as_json: bool) -> None:
    if order.state != OFF or order.workspace is not None:
        raise InvalidInput("--everywhere goes with off, and without --workspace", field="everywhere")
    changes = run(_switched_off(read_settings(), order))
    if as_json:
        say_json({"changes": [change_out(change) for change in changes]})
        return
    for change in changes:
        _say_change(change)


def _say_change(change: FlagChange) -> None:
    force = " (forced)" if change.forced else ""
    say(f"{_scope(change.workspace)}: {change.before or 'nothing'} → {change.after or 'nothing'}{force}")


def _say_overview(overview: FlagOverview) -> None:
    reading = overview.reading
    say(f"{overview.workspace}: {reading.state}, held by {reading.holder.value}")
    if reading.problem is not None:
        tell(reading.problem)
    say(
        f"without a stored state: {overview.environment} in this shell; each server goes by its own environment"
    )
    say_table(
        ("workspace", "stored", "counts"),
        [
            (DEFAULT, overview.rows.get(None), None),
            *(
                (scope, overview.rows.get(scope), str(read.state))
                for scope, read in overview.readings.items()
            ),
        ],
    )
    say_table(
        ("at", "by", "workspace", "from", "to", "evaluation", "reason"),
        [
            (utc_text(c.at), c.who, _scope(c.workspace), c.before, c.after, _evaluation(c), c.reason)
            for c in overview.changes
        ],
    )


def _say_report(report: ShadowReport) -> None:
    say(f"{counted(report.requests, 'request')} compared since {utc_text(report.since)}")
    say_table(
        ("overlap@8 mean", "median", "same top 8", "compared"),
        [
            (
                _share(report.mean_overlap),
                _share(report.median_overlap),
                _share(report.identical),
                str(report.compared),
            )
        ],
    )
    say_table(
        ("milliseconds", "p50", "p95"),
        [
            (name, *_milliseconds(latency))
            for name, latency in (
                ("lexical", report.lexical),
                ("hybrid", report.hybrid),
                ("added", report.added),
            )
        ],
    )
    say_table(("passages", "count"), [(kind.value, str(count)) for kind, count in report.moves.items()])
    say_table(("not compared for", "requests"), [(why, str(count)) for why, count in report.degraded.items()])


def _scope(workspace: Workspace | None) -> str:
    return DEFAULT if workspace is None else workspace


def _evaluation(change: FlagChange) -> str | None:
    said = None if change.evidence is None else change.evidence.verdict.value
    return f"{said or 'none'}, forced" if change.forced else said


def _share(share: float | None) -> str | None:
    return None if share is None else f"{share:.3f}"


def _milliseconds(latency: Latency | None) -> tuple[str | None, str | None]:
    return (None, None) if latency is None else (f"{latency.p50:.1f}", f"{latency.p95:.1f}")


async def _show(settings: Settings, workspace: Workspace) -> FlagOverview:
    async with flag_use_cases(settings) as flags:
        if settings.flag_provider is FlagHolder.FLAGD:
            await asyncio.sleep(CONNECTING_S)
        return await flags.control.show(workspace, await flags.store.workspaces())


async def _changed(settings: Settings, order: FlagOrder) -> tuple[FlagChange, Mapping[Workspace, str]]:
    """The change, and the stored states of single workspaces beside it."""
    async with flag_use_cases(settings) as flags:
        return await flags.control.set_flag(order), await flags.control.stored()


async def _stored(settings: Settings, workspace: Workspace | None) -> str | None:
    async with flag_use_cases(settings) as flags:
        return (await flags.control.show(DEFAULT_WORKSPACE)).rows.get(workspace)


async def _switched_off(settings: Settings, order: FlagOrder) -> Sequence[FlagChange]:
    async with flag_use_cases(settings) as flags:
        return await flags.switch.off_everywhere(order.who, order.reason)


async def _shadow_report(settings: Settings, workspace: Workspace, since: str) -> ShadowReport:
    moment = since_of(since, utc_now())
    async with open_store(settings) as store:
        return await report_on_shadow(SqlShadowLedger(store.engines), workspace, moment)
