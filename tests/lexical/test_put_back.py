"""A database that was put back to an earlier state and went another way, under an index that knows the first."""

import shutil
import sqlite3
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection, select, text
from structlog.testing import capture_logs

from service.adapters.sql import migrate, schema
from service.adapters.sql.archive_tables import BY_KIND
from service.adapters.sql.engine import Engines, begin, open_engines
from service.adapters.sql.engine import database_url as url_of
from service.adapters.sql.migrate import upgrade
from service.bootstrap import Application, application
from service.model import DEFAULT_WORKSPACE
from service.search.request import ByQuery, RetrieveOptions
from service.settings import Settings
from tests.lexical.parts import backup_of, found, put_back, whole, write

pytestmark = pytest.mark.anyio
LOST = 5  # items of the history that is lost, a change each
AFTER = (2, LOST, 8)  # changes after it was put back: less, just as many, more


def elsewhere(settings: Settings, folder: Path) -> Settings:
    """Another process on the same database: it has an index of its own."""
    return settings.model_copy(update={"data_dir": folder, "database_url": settings.resolved_database_url})


@pytest.mark.parametrize("after", AFTER)
async def test_an_index_of_a_lost_history_at_a_start(settings: Settings, tmp_path: Path, after: int) -> None:
    """C14: a start after a restore does not trust an index whose changes the database does not know any more."""
    async with application(settings) as app:
        before = await write(app, "a", 5, "sill")
        backup = await backup_of(app)
        await write(app, "lost", LOST, "jamb")
    async with application(elsewhere(settings, tmp_path / "other")) as other:
        await put_back(other, backup)
        new = await write(other, "new", after, "sill")
    with capture_logs() as logs:
        async with application(settings) as app:
            assert await found(app, "sill") == sorted(before + new)
            assert await found(app, "jamb") == []
            assert app.lexical.status()[DEFAULT_WORKSPACE].rebuilds == 1
    told = [(line["event"], line.get("reason")) for line in logs if line["event"].startswith("lexical")]
    assert told[:2] == [
        ("lexical_index_not_trusted", "the database was put back to an earlier state"),
        ("lexical_index_build", "the database was put back to an earlier state"),
    ]


@pytest.mark.parametrize("limit", [100, 1])
@pytest.mark.parametrize("after", AFTER)
async def test_a_process_that_runs_meanwhile(
    settings: Settings, tmp_path: Path, after: int, limit: int
) -> None:
    """C14: a process under which the database is put back answers from the rows that there are now."""
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(application(settings))
        other = await stack.enter_async_context(application(elsewhere(settings, tmp_path / "other")))
        before = await write(app, "a", 5, "sill")
        backup = await backup_of(app)
        await write(app, "lost", LOST, "jamb")
        await put_back(other, backup)
        new = await write(other, "new", after, "sill")
        pages: list[str] = []
        cursor: str | None = None
        while cursor is not None or not pages:
            options = RetrieveOptions(DEFAULT_WORKSPACE, limit=limit, cursor=cursor)
            answer = await app.retriever.retrieve(ByQuery("sill"), options)
            pages += [result.provenance.item_id for result in answer.results]
            cursor = answer.next_cursor
        assert sorted(pages) == sorted(before + new)
        assert await found(app, "jamb") == []
        await app.lexical.catch_up(DEFAULT_WORKSPACE)  # the index is built again in the background
        assert (await whole(app, "sill")).lexical.source == "index"
        assert await found(app, "sill") == sorted(before + new)


@pytest.mark.parametrize("after", AFTER)
async def test_a_process_that_writes_after_it(settings: Settings, tmp_path: Path, after: int) -> None:
    """C14: the write that follows a restore is found, and so is everything that was written before."""
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(application(settings))
        other = await stack.enter_async_context(application(elsewhere(settings, tmp_path / "other")))
        before = await write(app, "a", 5, "sill")
        backup = await backup_of(app)
        await write(app, "lost", LOST, "jamb")
        await put_back(other, backup)
        new = [*await write(other, "new", after, "sill"), *await write(app, "own", 1, "sill")]
        assert await found(app, "sill") == sorted(before + new) == await found(other, "sill")


async def test_a_copy_of_the_file(tmp_path: Path) -> None:
    """C14: a copy of an SQLite file that is put back and written to by another process first is noticed."""
    home, backup = Settings(data_dir=tmp_path / "home"), tmp_path / "copy.db"
    database = tmp_path / "home" / "citewell.db"
    async with application(home) as app:
        before = await write(app, "a", 5, "sill")
        with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(backup)) as copy:
            source.backup(copy)
        await write(app, "lost", LOST, "jamb")
    for path in database.parent.glob("citewell.db*"):
        path.unlink()
    shutil.copy(backup, database)
    async with application(elsewhere(home, tmp_path / "other")) as other:
        new = await write(other, "new", 8, "sill")
    async with application(home) as app:
        assert await found(app, "sill") == sorted(before + new)


async def test_every_commit_has_a_nonce_of_its_own(app: Application) -> None:
    """C14: the entries of one commit share a random number that no other commit has."""
    await write(app, "a", 4, "sill")
    async with app.store.transaction(DEFAULT_WORKSPACE) as transaction:
        await transaction.request_rebuild()
        await transaction.request_rebuild()
    *single, one, another = await nonces(app.store.engines)
    assert one == another
    assert len({0, one, *single}) == 6


def test_a_restored_archive_is_a_history_of_its_own() -> None:
    """C14: an archive holds no nonces; what is restored gets new ones, each time."""
    restored = [BY_KIND["change"].completed({"seq": 1})["nonce"] for _ in range(20)]
    assert len({0, *restored}) == 21


async def test_an_older_database(settings: Settings) -> None:
    """C14: changes that were logged before there were nonces get some when the schema is brought up to date."""

    def older(connection: Connection) -> None:
        config = migrate._config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0007")
        for seq in (1, 2, 3):
            connection.execute(
                text(
                    "INSERT INTO change_log (seq, workspace, kind, at, number) "
                    "VALUES (:seq, 'default', 'vocabulary_changed', '2026-01-01 00:00:00', :seq)"
                ).bindparams(seq=seq)
            )
        connection.execute(text("UPDATE change_counter SET seq = 3"))

    engines = open_engines(url_of(settings.resolved_database_url))
    async with begin(engines.write) as connection:
        await connection.run_sync(older)
    await upgrade(engines)
    assert len({0, *await nonces(engines)}) == 4
    await engines.close()
    async with application(settings) as app:
        new = await write(app, "a", 3, "sill")
        assert await found(app, "sill") == new


async def nonces(engines: Engines) -> list[int]:
    """Those of the whole log, in order."""
    log = schema.change_log.c
    async with begin(engines.read) as connection:
        return list((await connection.execute(select(log.nonce).order_by(log.seq))).scalars())
