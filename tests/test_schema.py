"""Migrations and tables say the same."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from service.adapters.sql.engine import database_url as url_of
from service.adapters.sql.engine import open_engines
from service.adapters.sql.migrate import upgrade
from service.adapters.sql.schema import metadata
from service.settings import Settings

pytestmark = pytest.mark.anyio


async def test_the_migrations_build_the_tables(settings: Settings) -> None:
    """C1: a database that was migrated from nothing has the tables that the code reads, on either engine."""

    def differences(connection: Connection) -> list[object]:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))

    engines = open_engines(url_of(settings.resolved_database_url))
    await upgrade(engines)
    async with engines.read.connect() as connection:
        found = await connection.run_sync(differences)
    await engines.close()
    assert found == []
