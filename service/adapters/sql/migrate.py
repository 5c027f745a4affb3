"""Schema upgrades with Alembic, on the project's own async connection."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from service.adapters.sql.engine import WHERE, Engines, UnusableDatabase, begin
from service.errors import ConfigurationError

_LOCK = 7_103_220_451_183_551_214  # PostgreSQL advisory lock: two processes never migrate at once


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


def _upgrade(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    config = _config()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    current = MigrationContext.configure(connection).get_current_revision()
    if current is not None and current not in known:
        raise ConfigurationError("the database was written by a newer version of citewell")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


async def upgrade(engines: Engines) -> None:
    """Bring the schema to this version. Safe to call at every start and from several processes.

    Raises ConfigurationError, also for a file or a folder that has to be looked after by a person.
    """
    try:
        async with begin(engines.write) as connection:
            await connection.run_sync(_upgrade)
    except UnusableDatabase as error:
        place = engines.write.url.database
        raise ConfigurationError(f"{error.detail} ({place}, see {WHERE})") from error
