"""`citewell ingest`: documents from files and folders."""

import asyncio
from dataclasses import asdict
from pathlib import Path

import click

from service.bootstrap import application
from service.errors import InvalidInput
from service.ingest.file_names import FileNaming
from service.ingest.file_report import IngestReport, IngestRequest
from service.model import ContentType, Workspace
from service.settings import Settings, read_settings
from service.surfaces.captures import CaptureLines
from service.surfaces.cli import exit_codes
from service.surfaces.cli.ingest_progress import open_watch
from service.surfaces.cli.options import json_option, workspace_of, workspace_option
from service.surfaces.cli.session import run, without_vectors
from service.surfaces.cli.stopping import stopping_signals
from service.surfaces.cli.terminal import counted, say, say_json, tell
from service.surfaces.wire import content_type as content_type_named


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH…")
@click.option(
    "--content-type",
    metavar="TYPE",
    default=ContentType.TECH_DOC.value,
    show_default=True,
    help="What documents are that do not say so: pdp, blog, tech-doc or marketing.",
)
@click.option("--version", metavar="LABEL", help="Their version; by default the day of their file.")
@click.option(
    "--base",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    help="The folder that file names are relative to; by default the working directory.",
)
@click.option("--url-prefix", metavar="URL", help="Make source URLs of file names: URL/name.")
@workspace_option
@json_option
def ingest(
    *,
    paths: tuple[Path, ...],
    content_type: str,
    version: str | None,
    base: Path,
    url_prefix: str | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Store documents from files and folders; what is stored already is left as it is.

    Reads Markdown with front matter, HTML, PDF, text, and one document a line from .jsonl and .ndjson,
    also gzipped: captures, or BEIR's corpus.jsonl. Run it again after anything to go on where it was.
    """
    settings = read_settings()
    request = IngestRequest(
        paths=paths,
        naming=FileNaming(base.absolute(), _checked_prefix(url_prefix)),
        content_type=content_type_named(content_type) or ContentType.TECH_DOC,
        version=version,
        max_file_bytes=settings.max_file_bytes,
    )
    report = run(_ingested(settings, workspace_of(settings, workspace), request))
    if as_json:
        say_json(asdict(report))
    else:
        say(summary(report))
    if report.interrupted:
        tell("stopped; run the same command again to go on")
        raise click.exceptions.Exit(exit_codes.INTERRUPTED)
    if report.failed:
        raise click.exceptions.Exit(exit_codes.PARTIAL)


def summary(report: IngestReport) -> str:
    """What an ingest did, in one line."""
    parts = [
        f"{counted(report.stored, 'document')} stored ({counted(report.passages, 'passage')})",
        f"{report.superseded} superseded",
        f"{report.unchanged} unchanged",
        f"{report.failed} failed",
        f"{counted(report.files, 'file')}, {report.unchanged_files} of them unchanged",
    ]
    if report.skipped:
        parts.append(f"{counted(report.skipped, 'file')} skipped: hidden, or of no kind that is read")
    return ", ".join(parts)


def _checked_prefix(url_prefix: str | None) -> str | None:
    if url_prefix is not None and not url_prefix.lower().startswith(("http://", "https://")):
        raise InvalidInput("the URL prefix must be an http or https URL", field="url_prefix")
    return url_prefix


async def _ingested(settings: Settings, workspace: Workspace, request: IngestRequest) -> IngestReport:
    async with application(without_vectors(settings)) as app:
        stop = asyncio.Event()
        with stopping_signals(stop), open_watch(stop) as watch:
            return await app.files.run(workspace, request, CaptureLines(app.documents), watch)
