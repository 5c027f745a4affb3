"""`citewell demo`: every promise once, on a database that is thrown away."""

import tempfile
from pathlib import Path
from typing import Final

import click

from service.bootstrap import Application, application
from service.errors import Unavailable
from service.model import (
    DEFAULT_WORKSPACE,
    MAX_LIMIT,
    Capture,
    ContentType,
    Facet,
    FacetType,
    ItemId,
    PassageText,
    SelectionContext,
    Source,
    SourceType,
    TagStatus,
)
from service.search.request import ByQuery, BySelection, BySystem, Explain, RetrieveOptions, Subject
from service.settings import Settings, VectorMode
from service.surfaces.cli.passages import say_passage
from service.surfaces.cli.session import run
from service.surfaces.cli.terminal import counted, say, tell
from service.surfaces.envelope import RetrievalOut, retrieval_out
from service.surfaces.shipped import SILENT, ingest_products, load_shipped

SHOWN: Final = 2  # passages of each answer
W: Final = DEFAULT_WORKSPACE
TAGGED: Final = ItemId("blog-harbour-restaurant")
RETIRED: Final = ItemId("spring-promotion-2023")
TORQUE: Final = "torque of the SL45 pivot bolt"


@click.command()
def demo() -> None:
    """Show what citewell does, on a database of its own that is thrown away afterwards."""
    with tempfile.TemporaryDirectory(prefix="citewell-demo-") as folder:
        run(_demonstrated(Settings(data_dir=Path(folder), database_url="", vectors=VectorMode.OFF)))


async def _demonstrated(settings: Settings) -> None:
    async with application(settings) as app:
        tell("loading the shipped corpora into a temporary folder…")
        loaded = await load_shipped(app, W)
        if loaded is None or loaded.failed:
            raise Unavailable("the shipped corpora could not be loaded")
        say(f"{counted(loaded.stored, 'document')} with {counted(loaded.passages, 'passage')} are stored.\n")
        await _ways_to_ask(app)
        await _new_version(app)
        await _retirement(app)
        await _tag(app)


async def _ways_to_ask(app: Application) -> None:
    await _ask(app, "By free text: exact codes match as themselves", ByQuery("NW-SL45/20-D drain channel"))
    await _ask(app, "By system: what there is to say about the FD30", BySystem("fd30"))
    chosen = BySelection(SelectionContext(("loc-balcony", "cli-coast")))
    await _ask(app, "By selection: a balcony by the sea", chosen)


async def _new_version(app: Application) -> None:
    say("== A new version takes the old one's place in one transaction\n")
    await app.capturing.capture(
        W, _torque_note("2024-01", "Tighten the SL45 pivot bolt to a torque of 12 Nm.")
    )
    await _ask(app, "The first version of a note", ByQuery(TORQUE), shown=1)
    await app.capturing.capture(
        W, _torque_note("2025-06", "Tighten the SL45 pivot bolt to a torque of 9 Nm.")
    )
    await _ask(app, "After its source was captured again", ByQuery(TORQUE), shown=1)


async def _retirement(app: Application) -> None:
    say("== A retired document does not come back, though its file is ingested again\n")
    async with app.store.snapshot() as snapshot:
        item = await snapshot.item(W, RETIRED)
    title = "" if item is None else item.provenance.title
    say(f"{RETIRED} ({title}) is stored and retired.")
    report = await ingest_products(app, W, SILENT)
    say(f"Its folder was ingested again: {report.unchanged_files} of {report.files} files were unchanged.\n")
    found = await _asked(app, ByQuery(title), MAX_LIMIT)
    shown = any(passage.provenance.item_id == RETIRED for passage in found.results)
    say(f"$ {command(ByQuery(title))}\n")
    say(f"{found.shown} passages, {'one' if shown else 'none'} of {RETIRED}.\n")


async def _tag(app: Application) -> None:
    say("== A tag that a person accepted lifts its document for selections that imply its facet\n")
    subject = BySelection(SelectionContext(("bud-high",)))
    say(f"$ {command(subject)}\n")
    facet = Facet(FacetType.FACTOR, "budget")
    tag = await app.tagging.propose(W, TAGGED, facet, "demo")
    say(f"{TAGGED}, its tag {facet.type.value} {facet.id} {tag.status.value}: {await _rank(app, subject)}")
    tag = await app.tagging.decide(W, tag.tag_id, TagStatus.ACCEPTED, "demo")
    say(f"{TAGGED}, its tag {facet.type.value} {facet.id} {tag.status.value}: {await _rank(app, subject)}")


async def _rank(app: Application, subject: Subject) -> str:
    found = await _asked(app, subject, MAX_LIMIT)
    ranks = [n for n, p in enumerate(found.results, start=1) if p.provenance.item_id == TAGGED]
    return f"rank {ranks[0]} of {found.shown}" if ranks else "not found"


async def _ask(app: Application, what: str, subject: Subject, shown: int = SHOWN) -> None:
    say(f"== {what}\n")
    found = await _asked(app, subject, shown)
    say(f"$ {command(subject)}\n")
    for number, passage in enumerate(found.results, start=1):
        say_passage(number, passage)


async def _asked(app: Application, subject: Subject, limit: int) -> RetrievalOut:
    options = RetrieveOptions(W, limit=limit, explain=Explain.ON)
    return retrieval_out(await app.retriever.retrieve(subject, options), subject, options, W)


def command(subject: Subject) -> str:
    """The command line that asks the same."""
    match subject:
        case ByQuery(query):
            return f'citewell retrieve "{query}"'
        case BySystem(system_id):
            return f"citewell retrieve --system {system_id}"
        case BySelection(context):
            return f"citewell retrieve --options {','.join(context.option_ids)}"


def _torque_note(version: str, text: str) -> Capture:
    return Capture(
        title="Torque note",
        content_type=ContentType.TECH_DOC,
        source=Source(SourceType.UPLOAD, None, "notes/torque.md"),
        version=version,
        passages=(PassageText(0, "Pivot bolt", text),),
    )
