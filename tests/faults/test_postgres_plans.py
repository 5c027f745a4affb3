"""PostgreSQL's plans and connections where SQLAlchemy does not look: statements go straight to the driver."""

import asyncio

import pytest
from sqlalchemy import bindparam, select, text

from service.adapters.sql.driver import DriverStatement
from service.adapters.sql.live_rows import newest_number
from service.adapters.sql.store import SqlStore
from service.bootstrap import open_store
from service.model import DEFAULT_WORKSPACE
from service.settings import Settings
from tests.postgres import PostgresServer

pytestmark = pytest.mark.anyio
KILL = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()"""


async def test_glances_come_back(postgres_server: PostgresServer) -> None:
    """C27: after the database has closed its connections the common read is a glance again, without a restart."""
    with postgres_server.database() as url:
        async with open_store(Settings(database_url=url)) as store:
            for _ in range(4):
                assert await store.glance(DEFAULT_WORKSPACE, [1], None) is not None
            async with store.engines.write.begin() as connection:
                await connection.execute(text(KILL))
            await asyncio.sleep(0.2)
            answers = [await store.glance(DEFAULT_WORKSPACE, [1], None) for _ in range(20)]
            assert all(answer is not None for answer in answers[-10:])


async def test_a_quiet_workspace_is_not_looked_for_among_others(postgres_server: PostgresServer) -> None:
    """U18: a workspace's number is one step into an index, however much others write, in a generic plan too."""
    with postgres_server.database() as url:
        async with open_store(Settings(database_url=url)) as store:
            plan = await _newest_plan(store)
            assert "ix_change_log_workspace_number" in plan
            assert "Seq Scan" not in plan


async def _newest_plan(store: SqlStore) -> str:
    statement = DriverStatement(select(newest_number(bindparam("workspace"))), store.engines.glance.dialect)
    async with store.engines.write.begin() as connection:
        await connection.execute(
            text(
                "INSERT INTO change_log (seq, workspace, kind, at, number) "
                "SELECT n, 'others', 'tag_changed', now(), n FROM generate_series(1, 20000) n"
            )
        )
        await connection.execute(text("ANALYZE change_log"))
        await connection.execute(text("SET LOCAL plan_cache_mode = force_generic_plan"))
        raw = await connection.get_raw_connection()
        driver = raw.driver_connection
        assert driver is not None
        rows = await driver.fetch(f"EXPLAIN {statement._sql}", "quiet")
    return "\n".join(row[0] for row in rows)
