"""`citewell links`: whether source URLs are alive."""

from dataclasses import replace

import click

from service.adapters.link_prober import HttpLinkProber, ProbeSettings
from service.adapters.link_targets import WEB_PORTS, TargetPolicy
from service.bootstrap import open_store
from service.ingest.links import DEFAULT_PLAN, LinkOutcome, LinkSummary, check_links
from service.model import Workspace
from service.ports.links import Verdict
from service.settings import Settings, read_settings
from service.surfaces.cli import exit_codes
from service.surfaces.cli.options import json_option, workspace_of, workspace_option
from service.surfaces.cli.session import run
from service.surfaces.cli.terminal import counted, say, say_json, tell


@click.group()
def links() -> None:
    """Check whether source URLs are alive."""


@links.command()
@click.option("--allow-private", is_flag=True, help="Also visit private addresses, on any port.")
@click.option(
    "--second-look-after",
    type=click.FloatRange(min=0),
    default=DEFAULT_PLAN.second_look_after,
    show_default=True,
    metavar="SECONDS",
    help="Pause before a server in trouble is asked once more.",
)
@workspace_option
@json_option
def check(*, allow_private: bool, second_look_after: float, workspace: str | None, as_json: bool) -> None:
    """Visit the source URL of every live document and store whether it answered."""
    settings = read_settings()
    summary = run(
        _checked(settings, workspace_of(settings, workspace), second_look_after, allow_private=allow_private)
    )
    if as_json:
        say_json(summary_out(summary))
    else:
        say(
            f"{summary.checked} checked: {summary.alive} alive, {summary.dead} dead, {summary.refused} refused, "
            f"{summary.undecided} undecided; {counted(summary.changed, 'document')} changed"
        )
    if summary.checked and not summary.any_answer:
        tell("no server answered at all: look at this machine's network before trusting this")
        raise click.exceptions.Exit(exit_codes.UNAVAILABLE)


def summary_out(summary: LinkSummary) -> dict[str, object]:
    """A check's counts, and what was concluded about each URL."""
    return {
        "checked": summary.checked,
        "alive": summary.alive,
        "dead": summary.dead,
        "refused": summary.refused,
        "undecided": summary.undecided,
        "changed": summary.changed,
        "urls": [
            {
                "url": outcome.url,
                "verdict": outcome.liveness.verdict.value,
                "reason": outcome.liveness.reason.value,
                "status": outcome.liveness.status,
                "changed": outcome.changed,
            }
            for outcome in summary.outcomes
        ],
    }


async def _checked(
    settings: Settings, workspace: Workspace, second_look_after: float, *, allow_private: bool
) -> LinkSummary:
    targets = TargetPolicy(allow_private=allow_private, ports=None if allow_private else WEB_PORTS)
    plan = replace(DEFAULT_PLAN, second_look_after=second_look_after)
    async with open_store(settings) as store, HttpLinkProber(ProbeSettings(targets=targets)) as prober:
        return await check_links(workspace, prober, store, _tell_outcome, plan=plan)


def _tell_outcome(outcome: LinkOutcome, done: int, total: int) -> None:
    """Every URL that is not alive, and now and then how far the check is."""
    verdict = outcome.liveness.verdict
    if verdict is not Verdict.ALIVE:
        tell(f"{verdict.value}: {outcome.url} ({outcome.liveness.reason.value})")
    elif done % 100 == 0 or done == total:
        tell(f"{done} of {total} checked")
