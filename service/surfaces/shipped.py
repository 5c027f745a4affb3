"""The corpora that ship with the project: fictional products with their lifecycle, and public-service pages."""

import hashlib
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

import service
from service.adapters.sql.store import SqlStore
from service.bootstrap import Application
from service.ingest.file_names import FileNaming
from service.ingest.file_report import FileFailure, IngestReport, IngestRequest, IngestWatch
from service.ingest.vocabulary import get_vocabulary, put_vocabulary
from service.model import Facet, FacetType, ItemId, TagStatus, Vocabulary, Workspace
from service.ports.store import IngestMark
from service.surfaces.captures import CaptureLines
from service.surfaces.wire import FacetTypeName, VocabularyIn, decode_json, vocabulary_of

FOLDER: Final = Path(service.__file__).parent / "shipped"
PRODUCTS: Final = FOLDER / "products"
DOC2DIAL: Final = FOLDER / "doc2dial" / "corpus.jsonl"
DOC2DIAL_VERSION: Final = "doc2dial 1.0.1"
EDITION: Final = "1"  # raise when the shipped data changes: a load of an earlier edition is then repeated
_MARK: Final = hashlib.sha256(b"shipped corpora").hexdigest()


class _Supersession(msgspec.Struct):
    item_id: str
    by: str


class _LifecycleIn(msgspec.Struct):
    retire: list[str]
    supersede: list[_Supersession]


class _TagIn(msgspec.Struct):
    item_id: str
    facet_type: FacetTypeName
    facet_id: str
    status: str
    by: str


class _TagsIn(msgspec.Struct):
    tags: list[_TagIn]


class ShippedState(StrEnum):
    """What a workspace holds of the shipped corpora."""

    EMPTY = "empty"  # nothing at all, of anybody
    BEGUN = "begun"
    LOADED = "loaded"
    OTHERS = "others"  # somebody's own data


class Silent:
    """Nobody watches. Implements IngestWatch."""

    def begin(self, files: int, size: int) -> None:
        """Nothing to say."""

    def advanced(self, report: IngestReport, size: int) -> None:
        """Nothing to say."""

    def failed(self, failure: FileFailure) -> None:
        """Nothing to say; the report has it."""

    def should_stop(self) -> bool:
        """Never."""
        return False


SILENT: Final = Silent()


async def shipped_state(store: SqlStore, workspace: Workspace) -> ShippedState:
    """What the workspace holds. Raises StoreUnavailable."""
    mark = (await store.ingest_marks(workspace, [_MARK])).get(_MARK)
    if mark is not None:
        return ShippedState.LOADED if mark.finished and mark.digest == EDITION else ShippedState.BEGUN
    is_empty = not await store.changes(workspace, 0, 1)
    return ShippedState.EMPTY if is_empty else ShippedState.OTHERS


async def load_shipped(
    app: Application, workspace: Workspace, watch: IngestWatch = SILENT
) -> IngestReport | None:
    """Load the shipped corpora; None where they were loaded before. An interrupted load goes on here.

    What is there already, a vocabulary or a decision on a tag, is left as it is. Raises StoreUnavailable.
    """
    if await shipped_state(app.store, workspace) is ShippedState.LOADED:
        return None
    await _mark(app.store, workspace, finished=False)
    report = await ingest_products(app, workspace, watch, DOC2DIAL)
    if report.interrupted or report.failed:
        return report
    if await get_vocabulary(app.store, workspace) == Vocabulary():
        stated = decode_json((PRODUCTS / "vocabulary.json").read_bytes(), VocabularyIn)
        await put_vocabulary(app.store, workspace, vocabulary_of(stated))
    await _load_tags(app, workspace)
    await _load_lifecycle(app, workspace)
    await _mark(app.store, workspace, finished=True)
    return report


async def ingest_products(
    app: Application, workspace: Workspace, watch: IngestWatch, *more: Path
) -> IngestReport:
    """Ingest the product documents in the order of their names, then what else is named."""
    request = IngestRequest(
        paths=(PRODUCTS / "documents", *more),
        naming=FileNaming(FOLDER),
        version=DOC2DIAL_VERSION,  # of what states none itself
        max_file_bytes=app.settings.max_file_bytes,
    )
    return await app.files.run(workspace, request, CaptureLines(app.documents), watch)


async def _load_tags(app: Application, workspace: Workspace) -> None:
    for stated in decode_json((PRODUCTS / "tags.json").read_bytes(), _TagsIn).tags:
        facet, wanted = Facet(FacetType(stated.facet_type), stated.facet_id), TagStatus(stated.status)
        tag = await app.tagging.propose(workspace, ItemId(stated.item_id), facet, stated.by)
        if tag.status is TagStatus.PROPOSED and wanted is not TagStatus.PROPOSED:
            await app.tagging.decide(workspace, tag.tag_id, wanted, stated.by)


async def _load_lifecycle(app: Application, workspace: Workspace) -> None:
    stated = decode_json((PRODUCTS / "lifecycle.json").read_bytes(), _LifecycleIn)
    for item_id in stated.retire:
        await app.lifecycle.retire(workspace, ItemId(item_id))
    for pair in stated.supersede:
        await app.lifecycle.supersede(workspace, ItemId(pair.item_id), ItemId(pair.by))


async def _mark(store: SqlStore, workspace: Workspace, *, finished: bool) -> None:
    async with store.transaction(workspace) as transaction:
        await transaction.mark_ingest(IngestMark(_MARK, EDITION, 0, finished))
