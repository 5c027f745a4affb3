"""Engines and transactions: one code for SQLite (WAL) and PostgreSQL.

Reads run in a snapshot (SQLite's WAL read transaction, PostgreSQL's REPEATABLE READ). Writes are serial: on
SQLite by BEGIN IMMEDIATE, on PostgreSQL by locking the one row of the change counter.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from sqlalchemy import Dialect, event, make_url
from sqlalchemy.engine import URL, Connection
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from service.errors import CitewellError, ConfigurationError, StorageFull, StoreUnavailable

BUSY_TIMEOUT_S = 30.0  # how long a write waits for another process's write
POOL_SIZE = 8
GLANCE_POOL_SIZE = 4  # single statements are over at once; a transaction never holds one of these
FEED_POOL_SIZE = 2  # readers wait for the index with a connection in hand; the index must not wait for theirs
SQLITE_CACHE_KIB = 16_384  # page cache of one connection
WHERE = "CITEWELL_DATA_DIR or CITEWELL_DATABASE_URL"  # the settings that say where an SQLite database is

# A logged error shows its statement, never the queries and texts that were its parameters.
_engine = partial(create_async_engine, hide_parameters=True)


@dataclass(frozen=True, slots=True)
class Engines:
    """Pools on the same database: for snapshots, for single statements, for the change feed, and for writes."""

    read: AsyncEngine
    glance: AsyncEngine
    feed: AsyncEngine
    write: AsyncEngine
    opened: set[DBAPIConnection] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Note every connection while it is open."""
        for engine in self._all():
            event.listen(engine.sync_engine, "do_connect", self._connect)
            event.listen(engine.sync_engine, "close", self._note_closed)

    async def close(self) -> None:
        """Close every connection, those too that a task which is being cancelled has not given back."""
        for engine in self._all():
            await engine.dispose()
        for connection in tuple(self.opened):
            connection.terminate()
        self.opened.clear()

    def _all(self) -> tuple[AsyncEngine, ...]:
        return self.read, self.glance, self.feed, self.write

    def _connect(
        self, dialect: Dialect, _: ConnectionPoolEntry, places: list[object], named: dict[str, object]
    ) -> DBAPIConnection:
        """Known from the first, also where its preparation is given up."""
        connection = dialect.connect(*places, **named)
        self.opened.add(connection)
        return connection

    def _note_closed(self, connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        self.opened.discard(connection)


class UnusableDatabase(StoreUnavailable):
    """The file or the folder of the database is not what it has to be: trying again does not mend it."""


def database_url(text: str) -> URL:
    """A URL with the async driver of its database. Raises ConfigurationError for any other database."""
    try:
        url = make_url(text)
    except Exception as error:
        raise ConfigurationError("CITEWELL_DATABASE_URL: this is no URL of a database") from error
    match url.get_backend_name():
        case "sqlite":
            return url.set(drivername="sqlite+aiosqlite")
        case "postgresql":
            return url.set(drivername="postgresql+asyncpg")
        case other:
            raise ConfigurationError(
                f"CITEWELL_DATABASE_URL: databases of the kind {other!r} are not supported"
            )


def open_engines(url: URL) -> Engines:
    """Engines for a database. Nothing connects yet. Raises ConfigurationError."""
    if url.get_backend_name() == "sqlite":
        return _sqlite_engines(url)
    try:
        return _postgres_engines(url)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "CITEWELL_DATABASE_URL names PostgreSQL and its driver is missing: pip install 'citewell[postgres]'"
        ) from error


def _postgres_engines(url: URL) -> Engines:
    read = _engine(
        url,
        isolation_level="REPEATABLE READ",
        pool_size=POOL_SIZE,
        max_overflow=POOL_SIZE,
        pool_pre_ping=True,
    )
    glance = _engine(url, pool_size=GLANCE_POOL_SIZE, max_overflow=0, pool_reset_on_return=None)
    feed = _engine(
        url, isolation_level="REPEATABLE READ", pool_size=FEED_POOL_SIZE, max_overflow=2, pool_pre_ping=True
    )
    write = _engine(url, isolation_level="READ COMMITTED", pool_size=2, max_overflow=2, pool_pre_ping=True)
    return Engines(read, glance, feed, write)


def _sqlite_engines(url: URL) -> Engines:
    if url.database:
        _make_folder(Path(url.database).parent)
    arguments = {"timeout": BUSY_TIMEOUT_S, "isolation_level": None}
    read = _engine(url, connect_args=arguments, pool_size=POOL_SIZE, max_overflow=0)
    glance = _engine(
        url, connect_args=arguments, pool_size=GLANCE_POOL_SIZE, max_overflow=0, pool_reset_on_return=None
    )
    feed = _engine(url, connect_args=arguments, pool_size=FEED_POOL_SIZE, max_overflow=0)
    write = _engine(url, connect_args=arguments, pool_size=1, max_overflow=0)
    for engine, begin in ((read, "BEGIN"), (feed, "BEGIN"), (write, "BEGIN IMMEDIATE")):
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_with(begin))
    event.listen(glance.sync_engine, "connect", _prepare_sqlite)
    return Engines(read, glance, feed, write)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{WHERE}: the folder {folder} is not there and cannot be made ({error.strerror})"
        ) from error


def _prepare_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")  # an acknowledged write survives a power cut
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute(f"PRAGMA cache_size=-{SQLITE_CACHE_KIB}")
    cursor.close()


def _begin_with(statement: str) -> Callable[[Connection], None]:
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(statement)

    return begin


@asynccontextmanager
async def begin(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A transaction whose database errors are the project's own."""
    try:
        async with engine.begin() as connection:
            yield connection
    except CitewellError:
        raise
    except DBAPIError as error:
        raise _translated(error) from error
    except (PoolTimeout, OSError) as error:
        raise StoreUnavailable("the database does not answer") from error


# What trying again does not mend, in SQLite's words and in ours.
_CAUSES = {
    "readonly database": "the database cannot be written: its file or its folder is read-only",
    "unable to open database file": "the database cannot be opened: its file and its folder have to be writable",
    "file is not a database": "the database file is no database, or it is damaged: put a backup in its place",
    "disk image is malformed": "the database file is damaged: put a backup in its place",
}


def _translated(error: DBAPIError) -> CitewellError:
    reason = str(error.orig).lower()
    if "disk is full" in reason or "no space left" in reason:
        return StorageFull("the database's disk is full; nothing of this request was stored")
    for said, cause in _CAUSES.items():
        if said in reason:
            return UnusableDatabase(cause)
    if isinstance(error, OperationalError) or error.connection_invalidated:
        return StoreUnavailable("the database does not answer")
    return StoreUnavailable("the database refused the request")
