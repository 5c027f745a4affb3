"""`citewell vocabulary`: the systems, factors, options and attributes of a workspace."""

from typing import BinaryIO

import click

from service.bootstrap import open_store
from service.ingest.vocabulary import get_vocabulary, put_vocabulary
from service.model import Vocabulary, Workspace
from service.settings import Settings, read_settings
from service.surfaces.cli.options import json_option, workspace_of, workspace_option
from service.surfaces.cli.session import run
from service.surfaces.cli.terminal import say, say_json, say_table
from service.surfaces.wire import VocabularyIn, decode_json, utc_text, vocabulary_of, vocabulary_out


@click.group()
def vocabulary() -> None:
    """Import and show systems, factors and options."""


@vocabulary.command("import")
@click.argument("file", type=click.File("rb"))
@workspace_option
@json_option
def import_(*, file: BinaryIO, workspace: str | None, as_json: bool) -> None:
    """Replace the whole vocabulary with that of a JSON FILE; - reads standard input."""
    settings = read_settings()
    stored = vocabulary_of(decode_json(file.read(), VocabularyIn))
    run(_put(settings, workspace_of(settings, workspace), stored))
    counts = {name: len(part) for name, part in vocabulary_out(stored).items()}
    if as_json:
        say_json(counts)
    else:
        say("stored " + ", ".join(f"{count} {name}" for name, count in counts.items()))


@vocabulary.command()
@workspace_option
@json_option
def show(*, workspace: str | None, as_json: bool) -> None:
    """Show the vocabulary."""
    settings = read_settings()
    found = run(_get(settings, workspace_of(settings, workspace)))
    if as_json:
        say_json(vocabulary_out(found))
        return
    say_table(
        ("system", "name", "retired"),
        [
            (s.system_id, s.name, None if s.retired_at is None else utc_text(s.retired_at))
            for s in found.systems
        ],
    )
    say("")
    factors = {factor.factor_id: factor.name for factor in found.factors}
    say_table(
        ("option", "label", "factor", "influences"),
        [(o.option_id, o.label, factors[o.factor_id], ", ".join(o.attribute_ids)) for o in found.options],
    )
    say("")
    say_table(("attribute", "name"), [(a.attribute_id, a.name) for a in found.attributes])


async def _put(settings: Settings, workspace: Workspace, stored: Vocabulary) -> None:
    async with open_store(settings) as store:
        await put_vocabulary(store, workspace, stored)


async def _get(settings: Settings, workspace: Workspace) -> Vocabulary:
    async with open_store(settings) as store:
        return await get_vocabulary(store, workspace)
