"""U19: readiness looks at every workspace's index, and says whose it is to operators of every workspace only."""

import shutil

import pytest

from service.core.access import EVERY_WORKSPACE, KeyScope
from service.model import Workspace
from service.settings import Settings
from service.surfaces.http import readiness
from tests.access.conftest import Locked, bearing
from tests.http.calls import assert_problem, document, part, read

pytestmark = pytest.mark.anyio
ACME = Workspace("acme")
QUERY = {"query": "sill"}


async def lose(locked: Locked, settings: Settings) -> None:
    """Take a named workspace's index away, so that it cannot be built again."""
    await locked.send("POST", "/v1/items", await locked.headers(ACME), document("a", "sill"))
    shutil.rmtree(settings.data_dir / "lexical")
    (settings.data_dir / "lexical").write_text("in the way")
    shard = locked.application.lexical._shards[ACME]
    assert shard._current is not None
    locked.client.blocking_portal.call(shard.damaged, shard._current, "a test")


async def test_a_named_workspace(locked: Locked, monkeypatch: pytest.MonkeyPatch) -> None:
    """U19: with a named workspace's index lost readiness says that rows are read, to operators whose they are."""
    monkeypatch.setattr(readiness, "SHARED_S", 0.0)
    await lose(locked, locked.application.settings)
    ready = await locked.send("GET", "/health/ready", {})
    assert ready.status_code == 200
    assert part(read(ready), "parts", "lexical")["state"] == "scanning"
    assert ACME not in ready.text
    everywhere = await locked.make(EVERY_WORKSPACE, scopes=frozenset({KeyScope.OPERATE}))
    told = part(read(await locked.send("GET", "/health/ready", bearing(everywhere.text))), "parts", "lexical")
    assert "acme (failed)" in str(told["reason"])
    single = await locked.make("default", scopes=frozenset({KeyScope.OPERATE}))
    assert ACME not in (await locked.send("GET", "/health/ready", bearing(single.text))).text


async def test_a_large_named_workspace(locked: Locked, monkeypatch: pytest.MonkeyPatch) -> None:
    """U19: where its rows are too many it answers 503, and so does readiness, without naming it."""
    monkeypatch.setattr(readiness, "SHARED_S", 0.0)
    application = locked.application
    few = application.settings.model_copy(update={"scan_bound": 0})
    await lose(locked, application.settings)
    object.__setattr__(application, "settings", few)
    object.__setattr__(application.lexical._settings, "scan_bound", 0)
    answer = await locked.send("POST", "/v1/retrieve", await locked.headers(ACME), QUERY)
    assert_problem(answer, 503, "lexical_index_unavailable")
    ready = await locked.send("GET", "/health/ready", {})
    assert ready.status_code == 503
    assert part(read(ready), "parts", "lexical")["state"] == "unavailable"
    assert ACME not in ready.text
