"""The shortest way through the whole house."""

import pytest

from service.bootstrap import Application
from service.model import DEFAULT_WORKSPACE
from tests.builders import ask, capture, ids, store

pytestmark = pytest.mark.anyio


async def test_stored_then_found_then_retired_then_gone(app: Application) -> None:
    """A capture is searchable when it is acknowledged, and gone when it is retired."""
    await store(
        app, capture("a", "the SL45 sill drains outward", item_id="a"), capture("b", "SL4500 rollers")
    )
    assert ids(await ask(app, "SL45")) == ["a"]
    await app.lifecycle.retire(DEFAULT_WORKSPACE, (await ask(app, "SL45")).results[0].provenance.item_id)
    assert ids(await ask(app, "SL45")) == []


async def test_a_new_capture_supersedes(app: Application) -> None:
    """C16: re-ingesting a source swaps its passages."""
    await store(
        app, capture("a", "old sill text", "tail sill text"), capture("a", "new sill text", version="v2")
    )
    assert [r.text for r in (await ask(app, "sill text")).results] == ["new sill text"]
