"""`citewell retrieve`: passages by text, by system or by selection."""

import click

from service.core.drill import parse_drill
from service.model import DEFAULT_LIMIT, SelectionContext, Workspace
from service.search.request import (
    Answer,
    ByQuery,
    BySelection,
    BySystem,
    Explain,
    RetrieveOptions,
    Subject,
    View,
)
from service.settings import Settings, read_settings
from service.surfaces.cli.asking import asked
from service.surfaces.cli.options import json_option, workspace_of, workspace_option
from service.surfaces.cli.passages import say_passages
from service.surfaces.cli.session import patient_application, run
from service.surfaces.cli.terminal import say_json
from service.surfaces.envelope import retrieval_out
from service.surfaces.wire import content_type as content_type_named
from service.vector_parts import preload_vectors


@click.command()
@click.argument("text", nargs=-1)
@click.option("--system", "system_id", metavar="ID", help="Passages about a system.")
@click.option("--options", "option_ids", metavar="A,B", help="Passages about what a buyer chose.")
@click.option("--limit", type=int, default=DEFAULT_LIMIT, show_default=True, help="Passages a page.")
@click.option("--content-type", metavar="TYPE", help="Only pdp, blog, tech-doc or marketing.")
@click.option("--cursor", metavar="CURSOR", help="The page after the one that gave this cursor.")
@click.option(
    "--view",
    type=click.Choice([view.value for view in View]),
    default=View.BRIEF.value,
    show_default=True,
    help="How much of each passage to show.",
)
@click.option("--explain", is_flag=True, help="Say why each passage stands where it stands.")
@click.option(
    "--force-arm", metavar="DRILL", help="Drill: the vector arm off, error or slow:300ms, whatever the flag."
)
@workspace_option
@json_option
def retrieve(
    *,
    text: tuple[str, ...],
    system_id: str | None,
    option_ids: str | None,
    limit: int,
    content_type: str | None,
    cursor: str | None,
    view: str,
    explain: bool,
    force_arm: str | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Find passages that answer TEXT, or are about a system or a selection."""
    subject = _subject(text, system_id, option_ids)
    settings = read_settings()
    options = RetrieveOptions(
        workspace_of(settings, workspace),
        limit=limit,
        content_type=content_type_named(content_type),
        cursor=cursor,
        view=View(view),
        explain=Explain.ON if explain else Explain.OFF,
        drill=None if force_arm is None else parse_drill(force_arm),
    )
    preload_vectors(settings)  # done while the event loop runs, it would hold up the flag and the index
    answer = run(_retrieved(settings, subject, options))
    shown = retrieval_out(answer, subject, options, Workspace(settings.workspace))
    if as_json:
        say_json(shown)
    else:
        say_passages(shown)


def _subject(text: tuple[str, ...], system_id: str | None, option_ids: str | None) -> Subject:
    """The one thing that was asked about. Raises click.UsageError for none and for several."""
    named: list[Subject] = []
    if text:
        named.append(ByQuery(" ".join(text)))
    if system_id is not None:
        named.append(BySystem(system_id))
    if option_ids is not None:
        chosen = tuple(name.strip() for name in option_ids.split(",") if name.strip())
        named.append(BySelection(SelectionContext(chosen)))
    if len(named) != 1:
        raise click.UsageError("retrieve takes one of TEXT, --system and --options")
    return named[0]


async def _retrieved(settings: Settings, subject: Subject, options: RetrieveOptions) -> Answer:
    async with patient_application(settings) as app:
        return await asked(app, subject, options)
