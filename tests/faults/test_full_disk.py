"""A full disk under the index, and under the database."""

from pathlib import Path

import pytest

from service.adapters.lexical import shard as lexical_shard
from service.bootstrap import application
from service.errors import StorageFull
from service.model import DEFAULT_WORKSPACE
from tests.central.model import Corpus
from tests.faults.corpus import assert_exact, document, fill, settings_in, upkeep
from tests.faults.tmpfs import small_disk

pytestmark = pytest.mark.anyio


async def test_a_full_disk_under_the_index(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C14: with its disk full the index may go, the answers stay exact; with space it comes back by itself."""
    monkeypatch.setattr(lexical_shard, "RETRY_AFTER_S", 0.0)
    corpus = Corpus()
    with small_disk(home / "lexical", 4) as disk:
        async with application(settings_in(home)) as app:
            await fill(app, corpus, range(5))
            disk.fill()
            for number in range(5, 15):
                await fill(app, corpus, range(number, number + 1))
                await assert_exact(app, corpus)
                await upkeep(app)
            await app.lexical.rebuild(DEFAULT_WORKSPACE)
            await assert_exact(app, corpus)
            disk.free()
            await fill(app, corpus, range(15, 18))
            await upkeep(app)
            await assert_exact(app, corpus)
            assert app.lexical.status()[DEFAULT_WORKSPACE].state == lexical_shard.ShardState.READY
        async with application(settings_in(home)) as app:
            await assert_exact(app, corpus)


async def test_a_full_disk_under_sqlite(home: Path) -> None:
    """C16: a capture that finds the disk full is refused whole; reads go on, and writes once there is space."""
    corpus = Corpus()
    with small_disk(home / "database", 4) as disk:
        settings = settings_in(home, database_url=f"sqlite:///{home / 'database' / 'citewell.db'}")
        async with application(settings) as app:
            await fill(app, corpus, range(5))
            disk.fill()
            refused = 0
            for number in range(5, 40):
                try:
                    await fill(app, corpus, range(number, number + 1))
                except StorageFull:
                    refused += 1
                await assert_exact(app, corpus)
                if refused == 3:
                    break
            assert refused == 3
            disk.free()
            await fill(app, corpus, range(40, 43))
            await assert_exact(app, corpus)
            assert (await app.capturing.capture(DEFAULT_WORKSPACE, document(42))).unchanged
