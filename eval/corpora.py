"""Putting a corpus into an instance through the service's own ingest use cases."""

from pathlib import Path
from typing import Final

import msgspec

from eval.beir import CorpusLine, read_corpus
from eval.dataset import Corpus, CorpusKind
from eval.errors import CorpusNotStored
from service.bootstrap import Application
from service.errors import CitewellError
from service.model import (
    DEFAULT_WORKSPACE,
    Capture,
    ContentType,
    ItemId,
    PassageText,
    Source,
    SourceType,
)
from service.surfaces.shipped import PRODUCTS, SILENT, ingest_products

_BATCH: Final = 500
_UNTITLED: Final = "(untitled)"


class _Supersession(msgspec.Struct):
    item_id: str
    by: str


class _Lifecycle(msgspec.Struct):
    retire: list[str]
    supersede: list[_Supersession]


async def load_corpus(app: Application, corpus: Corpus) -> None:
    """Store a corpus, its lifecycle included. Raises CorpusNotStored, MissingFile, MalformedLine."""
    if corpus.kind is CorpusKind.PRODUCTS:
        await _load_products(app)
    elif corpus.path is not None:
        await _load_beir(app, corpus.path)


async def _load_products(app: Application) -> None:
    report = await ingest_products(app, DEFAULT_WORKSPACE, SILENT)
    if report.failed or report.interrupted:
        raise CorpusNotStored(f"{report.failed} of {report.files} product documents were refused")
    stated = msgspec.json.decode((PRODUCTS / "lifecycle.json").read_bytes(), type=_Lifecycle)
    for item_id in stated.retire:
        await app.lifecycle.retire(DEFAULT_WORKSPACE, ItemId(item_id))
    for pair in stated.supersede:
        await app.lifecycle.supersede(DEFAULT_WORKSPACE, ItemId(pair.item_id), ItemId(pair.by))


async def _load_beir(app: Application, path: Path) -> None:
    captures = [beir_capture(line) for line in read_corpus(path)]
    for start in range(0, len(captures), _BATCH):
        part = captures[start : start + _BATCH]
        for capture, outcome in zip(
            part, await app.capturing.capture_batch(DEFAULT_WORKSPACE, part), strict=True
        ):
            if isinstance(outcome, CitewellError):
                raise CorpusNotStored(f"document {capture.item_id!r}: {outcome.detail}") from outcome


def beir_capture(line: CorpusLine) -> Capture:
    """A document as one passage. A title `document > heading` gives the passage its heading."""
    title, _, heading = line.title.strip().partition(" > ")
    return Capture(
        title=title or _UNTITLED,
        content_type=ContentType.TECH_DOC,
        source=Source(SourceType.UPLOAD, None, line.id),
        version="1",
        passages=(PassageText(0, heading or None, line.text if line.text.strip() else title or _UNTITLED),),
        item_id=ItemId(line.id),
    )
