"""The shipped corpora, and the demonstration on them."""

import pytest

from service.bootstrap import Application
from service.ingest.vocabulary import get_vocabulary
from service.model import DEFAULT_WORKSPACE, TagStatus, Vocabulary
from service.surfaces.shipped import PRODUCTS, ShippedState, load_shipped, shipped_state
from tests.builders import ask, capture, ids, store
from tests.cli.commands import CommandLine, item_ids
from tests.ingest.parts import stored_item

pytestmark = pytest.mark.anyio
W = DEFAULT_WORKSPACE


async def test_everything_is_loaded_once(app: Application) -> None:
    """C1, C3, C4: documents, vocabulary, tags and lifecycle are there after a load; a second one does nothing."""
    assert await shipped_state(app.store, W) is ShippedState.EMPTY
    report = await load_shipped(app, W)
    assert report is not None
    assert (report.stored, report.superseded, report.failed) == (93 + 2_455, 18, 0)
    head = await app.store.head()
    assert await load_shipped(app, W) is None
    assert (await app.store.head(), await shipped_state(app.store, W)) == (head, ShippedState.LOADED)
    vocabulary = await get_vocabulary(app.store, W)
    counts = [
        len(part)
        for part in (vocabulary.systems, vocabulary.factors, vocabulary.options, vocabulary.attributes)
    ]
    assert counts == [9, 14, 45, 16]
    async with app.store.snapshot() as snapshot:
        for status, count in ((TagStatus.ACCEPTED, 27), (TagStatus.PROPOSED, 7), (TagStatus.REJECTED, 6)):
            assert len(await snapshot.tags(W, None, status, None, 100)) == count


async def test_stubs_and_stale_versions_stay_out(sqlite_app: Application) -> None:
    """C2, C14: download stubs are stored unscorable, retired and superseded documents are not retrieved."""
    await load_shipped(sqlite_app, W)
    stub = await stored_item(sqlite_app, "cad-sl45-revit-family")
    assert stub is not None
    assert [passage.scorable for passage in stub.passages] == [False]
    assert "cad-sl45-revit-family" not in ids(await ask(sqlite_app, "Download SL45 Revit family", limit=50))
    stale = {"spring-promotion-2023", "sl60-overview", "sl45-overview-2023", "cad-fd30-sketchup"}
    for query in ("spring promotion 2023", "SL60 floor-supported", "SL45 overview", "FD30 SketchUp"):
        assert not stale & set(ids(await ask(sqlite_app, query, limit=200)))


async def test_somebody_elses_workspace_is_recognised(sqlite_app: Application) -> None:
    """A workspace that holds other data is not taken for an empty one."""
    await store(sqlite_app, capture("a", "my own sill"))
    assert await shipped_state(sqlite_app.store, W) is ShippedState.OTHERS
    assert await get_vocabulary(sqlite_app.store, W) == Vocabulary()


def test_every_document_is_named_in_its_sources() -> None:
    """The fictional corpus is 93 documents, and both corpora carry a statement of where they are from."""
    assert len(list((PRODUCTS / "documents").glob("*.md"))) == 93
    assert "Attribution 3.0" in (PRODUCTS.parent / "doc2dial" / "SOURCE.md").read_text()
    assert "fictional" in (PRODUCTS / "README.md").read_text()


def test_the_demonstration_keeps_its_promises(cli: CommandLine) -> None:
    """C14, C16, C22: the demo shows the swap, the retirement and the tag's effect, and touches no data."""
    page = cli.ok("demo")
    assert "torque of 9 Nm" in page
    assert page.index("torque of 12 Nm") < page.index("torque of 9 Nm")
    assert "93 of 93 files were unchanged" in page
    assert "passages, none of spring-promotion-2023" in page
    ranks = [
        int(line.split("rank ")[1].split()[0])
        for line in page.splitlines()
        if line.startswith("blog-harbour")
    ]
    assert ranks[1] < ranks[0]
    assert not cli.data_dir.exists()


def test_the_demonstrated_commands_work(shop: CommandLine) -> None:
    """C5: a command that the demo prints can be run: a retired system, too, still retrieves."""
    assert item_ids(shop.json("retrieve", "--system", "sl60"))
