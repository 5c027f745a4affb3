"""Short ways to say what a test stores."""

from service.bootstrap import Application
from service.model import (
    DEFAULT_WORKSPACE,
    Capture,
    CaptureResult,
    ContentType,
    ItemId,
    PassageText,
    Source,
    SourceType,
    Workspace,
)
from service.search.request import Answer, ByQuery, RetrieveOptions


def capture(
    name: str,
    *texts: str,
    title: str = "A document",
    heading: str | None = None,
    content_type: ContentType = ContentType.TECH_DOC,
    version: str = "v1",
    item_id: str | None = None,
) -> Capture:
    """A capture of the upload `name` with one passage per text."""
    return Capture(
        title=title,
        content_type=content_type,
        source=Source(SourceType.UPLOAD, None, name),
        version=version,
        passages=tuple(PassageText(seq, heading, text) for seq, text in enumerate(texts)),
        item_id=None if item_id is None else ItemId(item_id),
    )


async def store(
    app: Application, *captures: Capture, workspace: Workspace = DEFAULT_WORKSPACE
) -> list[CaptureResult]:
    """Store captures one by one, as callers do."""
    return [await app.capturing.capture(workspace, one) for one in captures]


async def ask(
    app: Application, query: str, limit: int = 8, workspace: Workspace = DEFAULT_WORKSPACE
) -> Answer:
    """Retrieve by free text."""
    return await app.retriever.retrieve(ByQuery(query), RetrieveOptions(workspace, limit=limit))


def ids(answer: Answer) -> list[str]:
    """The item ids of an answer, in order."""
    return [result.provenance.item_id for result in answer.results]


def texts(answer: Answer) -> list[str]:
    """The texts of an answer, in order."""
    return [result.text for result in answer.results]
