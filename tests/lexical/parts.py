"""A database that is put back to an earlier state, and what is read from it."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Table, delete, insert, select

from service.adapters.sql import schema
from service.adapters.sql.engine import begin
from service.bootstrap import Application
from service.model import DEFAULT_WORKSPACE, Workspace
from service.search.request import Answer, ByQuery, RetrieveOptions
from tests.builders import capture, store

Backup = Mapping[Table, Sequence[dict[str, object]]]


async def backup_of(app: Application) -> Backup:
    """Every row of every table, as of one moment."""
    async with begin(app.store.engines.read) as connection:
        return {
            table: [dict(row) for row in (await connection.execute(select(table))).mappings()]
            for table in schema.metadata.sorted_tables
        }


async def put_back(app: Application, backup: Backup) -> None:
    """Make the database what it was, under whoever runs on it, as the databases' own tools do."""
    async with begin(app.store.engines.write) as connection:
        for table in reversed(schema.metadata.sorted_tables):
            await connection.execute(delete(table))
        for table, rows in backup.items():
            if rows:
                await connection.execute(insert(table), list(rows))


async def write(
    app: Application, prefix: str, count: int, text: str, workspace: Workspace = DEFAULT_WORKSPACE
) -> list[str]:
    """Store items of one passage each; their ids."""
    names = [f"{prefix}{number}" for number in range(count)]
    await store(app, *(capture(name, f"{text} {name}", item_id=name) for name in names), workspace=workspace)
    return names


async def found(app: Application, query: str, workspace: Workspace = DEFAULT_WORKSPACE) -> list[str]:
    """The ids of all items with a word."""
    return sorted(result.provenance.item_id for result in (await whole(app, query, workspace)).results)


async def whole(app: Application, query: str, workspace: Workspace = DEFAULT_WORKSPACE) -> Answer:
    """A long page."""
    return await app.retriever.retrieve(ByQuery(query), RetrieveOptions(workspace, limit=100))
