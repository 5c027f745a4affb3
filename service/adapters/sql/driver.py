"""Statements compiled once and sent straight to the driver.

The statements of a read bring hundreds of rows a hundred times a second. SQLAlchemy builds and compiles them once;
running them through its async layer would cost several thread hops on SQLite and an object for every row.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from sqlalchemy import ARRAY, BigInteger, ClauseElement, ColumnElement, Dialect, Executable, any_, bindparam
from sqlalchemy import text as sql_text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.compiler import SQLCompiler

from service.adapters.sql import schema

Raw = Sequence[object]


class Driver(Protocol):
    """What is used of the two drivers' connections."""

    async def execute_fetchall(self, sql: str, parameters: Sequence[object]) -> Sequence[Raw]:
        """One statement on aiosqlite's thread."""
        ...

    async def fetch(self, query: str, *parameters: object) -> Sequence[Raw]:
        """One statement on asyncpg."""
        ...


class DriverStatement:
    """A statement with named parameters, for either database."""

    def __init__(self, statement: Executable, dialect: Dialect) -> None:
        self._postgres = is_postgres(dialect)
        compiled = cast("ClauseElement", statement).compile(dialect=dialect)
        if not isinstance(compiled, SQLCompiler):
            raise TypeError("only statements that read or write rows have parameters")
        self._sql = str(compiled)
        self._order: tuple[str, ...] = tuple(compiled.positiontup or ())

    async def run(self, connection: AsyncConnection, values: Mapping[str, object]) -> Sequence[Raw]:
        """The rows. Raises one of `driver_errors`."""
        raw = await connection.get_raw_connection()
        driver = cast("Driver", raw.driver_connection)
        parameters = [values[name] for name in self._order]
        if self._postgres:
            return await driver.fetch(self._sql, *parameters)
        return await driver.execute_fetchall(self._sql, parameters)


def is_postgres(dialect: Dialect) -> bool:
    """Which of the two databases it is."""
    return dialect.name == "postgresql"


def driver_errors(dialect: Dialect) -> tuple[type[Exception], ...]:
    """What a statement may raise."""
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    if is_postgres(dialect):
        driver = dialect.loaded_dbapi.asyncpg
        errors = (driver.PostgresError, driver.InterfaceError)
    return (*errors, DBAPIError, PoolTimeout, OSError)


def among_keys(dialect: Dialect) -> ColumnElement[bool]:
    """That a passage's key is one of the parameter `keys`: one parameter, however many keys there are."""
    key = schema.passages.c.passage_key
    if is_postgres(dialect):
        return key == any_(bindparam("keys", type_=ARRAY(BigInteger)))
    return key.in_(sql_text("SELECT value FROM json_each(:keys)"))


def listed(dialect: Dialect, values: Sequence[object]) -> object:
    """Many values as the one parameter that holds them."""
    return list(values) if is_postgres(dialect) else json.dumps(values)
