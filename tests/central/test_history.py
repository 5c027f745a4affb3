"""Histories that once left a trace, each by itself."""

import shutil
from pathlib import Path

import pytest

from service.adapters.sql import snapshot as sql_snapshot
from service.bootstrap import Application, application, open_store
from service.ingest.vocabulary import put_vocabulary
from service.model import (
    DEFAULT_WORKSPACE,
    Attribute,
    Facet,
    FacetType,
    Factor,
    ItemId,
    Option,
    SelectionContext,
    TagStatus,
    Vocabulary,
)
from service.search.request import ByQuery, BySelection, RetrieveOptions
from service.settings import Settings
from tests.builders import ask, capture, ids, store
from tests.central.machine import shown
from tests.central.model import Corpus

pytestmark = pytest.mark.anyio

A, B, C = ItemId("a"), ItemId("b"), ItemId("c")


async def upkeep(app: Application) -> None:
    """What the index does from time to time, now."""
    for shard in app.lexical._shards.values():
        await shard.maintain()


async def test_an_item_leaves_the_counts_once(app: Application) -> None:
    """C12: an item that is superseded and then retired, or retired and then superseded, turns stale once."""
    corpus = Corpus()
    for name in (A, B, C):
        one = capture(name, f"sill {name}", "water", item_id=name)
        await store(app, one)
        corpus.store(one, name)
    await app.lifecycle.supersede(DEFAULT_WORKSPACE, A, C)
    await app.lifecycle.retire(DEFAULT_WORKSPACE, A)
    await app.lifecycle.retire(DEFAULT_WORKSPACE, B)
    await app.lifecycle.supersede(DEFAULT_WORKSPACE, B, C)
    for stale in (A, B):
        corpus.retire(stale)
    for query in ("sill", "water", "sill water a"):
        assert shown(await ask(app, query)) == corpus.answer(ByQuery(query), None)


async def test_a_rebuild_asked_for_while_nobody_ran(fast_folder: Path) -> None:
    """C12: a process that starts heeds the rebuild that the log asked for while it was away."""
    settings = Settings(data_dir=fast_folder / "one", database_url=f"sqlite:///{fast_folder / 'citewell.db'}")
    async with application(settings) as app:
        await store(app, capture("a", "sill", item_id=A))
    async with open_store(settings) as rows, rows.transaction(DEFAULT_WORKSPACE) as transaction:
        await transaction.request_rebuild()
    for rebuilds in (1, 0):
        async with application(settings) as app:
            assert ids(await ask(app, "sill")) == [A]
            assert app.lexical.status()[DEFAULT_WORKSPACE].rebuilds == rebuilds


async def test_a_version_that_came_and_went_before_a_crash(fast_folder: Path) -> None:
    """C12: what was added and made stale behind the last checkpoint is taken out again, without a rebuild."""
    settings = Settings(data_dir=fast_folder, index_grace=0.0, index_checkpoint_every=0.001)
    async with application(settings) as app:
        await store(app, capture("other", "sill"))
        await upkeep(app)
        await store(app, capture("a", "sill one"), capture("a", "sill two"))
        shutil.copytree(fast_folder / "lexical", fast_folder / "crashed")
    shutil.rmtree(fast_folder / "lexical")
    shutil.move(fast_folder / "crashed", fast_folder / "lexical")
    async with application(settings) as app:
        assert len(ids(await ask(app, "sill"))) == 2
        status = app.lexical.status()[DEFAULT_WORKSPACE]
        assert (status.rebuilds, status.documents) == (0, 2)


async def test_a_selection_of_two_thousand_facets(app: Application) -> None:
    """C9: a selection may imply as many facets as the vocabulary has."""
    attributes = tuple(Attribute(f"a{n:04}", "water") for n in range(2_000))
    option = Option("o", "f", "sill", None, tuple(attribute.attribute_id for attribute in attributes))
    await put_vocabulary(
        app.store, DEFAULT_WORKSPACE, Vocabulary((), attributes, (Factor("f", "Sill"),), (option,))
    )
    await store(app, capture("a", "glass", item_id=A), capture("b", "glass", item_id=B))
    for facet in (Facet(FacetType.ATTRIBUTE, "a1999"), Facet(FacetType.FACTOR, "f")):
        tag = await app.tagging.propose(DEFAULT_WORKSPACE, B, facet, "a tester")
        await app.tagging.decide(DEFAULT_WORKSPACE, tag.tag_id, TagStatus.ACCEPTED, "a tester")
    subject = BySelection(SelectionContext(("o",)))
    assert ids(await app.retriever.retrieve(subject, RetrieveOptions(DEFAULT_WORKSPACE))) == [B]


async def test_passages_of_items_come_in_the_items_order(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C22: passages of tagged items are read most lifted first, and cut within an item, at any bound."""
    monkeypatch.setattr(sql_snapshot, "ITEM_CHUNK", 2)
    names = [ItemId(f"i{n}") for n in range(7)]
    await store(app, *(capture(n, *["sill"] * (1 + k % 3), item_id=n) for k, n in enumerate(names)))
    order = [names[n] for n in (3, 0, 6, 1, 5, 2, 4)]
    whole = [(name, seq) for name in order for seq in range(1 + int(name[1:]) % 3)]
    async with app.store.snapshot() as snapshot:
        for bound in range(1, len(whole) + 2):
            found = await snapshot.item_candidates(DEFAULT_WORKSPACE, order, None, bound)
            assert [(c.passage.item_id, c.passage.seq) for c in found] == whole[:bound]
