"""Which history a sequence number belongs to.

A database that is put back to an earlier state and written to again gives the same numbers to other changes. Each
commit's entries in the log share a random nonce, so two histories differ in it wherever they differ.
"""

import secrets

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Integer,
    Select,
    bindparam,
    func,
    literal_column,
    select,
    true,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from service.adapters.sql import schema

_REMEMBERED = 256
_BITS = 53  # a whole number in every database, and in JSON
_NONE: ColumnElement[int] = literal_column("0")


def new_nonce() -> int:
    """A commit's nonce. 0 is that of the state before the first one."""
    return secrets.randbits(_BITS) or 1


def nonce_at(seq: int | BindParameter[int]) -> ColumnElement[int]:
    """The nonce of the newest entry up to a number; an archive of one workspace leaves gaps between entries."""
    log = schema.change_log.alias().c
    return _of(select(func.max(log.seq)).where(log.seq <= seq).scalar_subquery())


def newest_nonce() -> ColumnElement[int]:
    """The nonce of the newest entry of all. Without parameters, for statements that go straight to the driver."""
    log = schema.change_log.alias().c
    return _of(select(func.max(log.seq)).scalar_subquery())


def _of(seq: ColumnElement[int]) -> ColumnElement[int]:
    log = schema.change_log.alias().c
    return func.coalesce(select(log.nonce).where(log.seq == seq).scalar_subquery(), _NONE)


def moment() -> Select[int, int]:
    """The log's newest number, and the history that it belongs to."""
    return select(schema.counter.c.seq, newest_nonce())


def stretch() -> Select[*tuple[object, ...]]:
    """A workspace's `most` first entries after `after` and up to `until`, and the nonces at both numbers.

    One row at least: without entries their columns are NULL. One statement, so that all of it is of one moment.
    """
    log, counter = schema.change_log.c, schema.counter
    after, until = bindparam("after", type_=schema.Key), bindparam("until", type_=schema.Key)
    found = (
        select(log.seq, log.kind, log.item_key, log.nonce)
        .where(log.workspace == bindparam("workspace"), log.seq > after, log.seq <= until)
        .order_by(log.seq)
        .limit(bindparam("most", type_=Integer))
        .subquery()
    )
    ends = (nonce_at(after).label("before"), nonce_at(until).label("at_end"))
    return (
        select(counter.c.seq.label("head"), *ends, found)
        .select_from(counter.outerjoin(found, true()))
        .order_by(found.c.seq)
    )


class LogReader:
    """What one process has read of the log: the nonces at the numbers it read up to last.

    `forks` counts how often the log turned out to be another one than was read.
    """

    def __init__(self) -> None:
        self.forks = 0
        self._nonces: dict[int, int] = {}
        self._newest = 0

    def note(self, seq: int, nonce: int) -> None:
        """The log was read up to there."""
        self._nonces[seq] = nonce
        self._newest = seq
        if len(self._nonces) > _REMEMBERED:
            self._nonces.pop(next(iter(self._nonces)))

    def nonce_at(self, seq: int) -> ColumnElement[int] | int:
        """As it was read; what was not read, or long ago, is to be asked for."""
        return self._nonces.get(seq) or nonce_at(seq)

    async def look(self, connection: AsyncConnection, seq: int) -> int:
        """The nonce at a number as the log has it now. What was read is forgotten where it is told no more."""
        newest = self._newest if self._newest in self._nonces else 0
        found = await connection.execute(select(nonce_at(seq), nonce_at(newest)))
        here, there = found.one()
        if newest and there != self._nonces[newest]:
            self.forks += 1
            self._nonces, self._newest = {}, 0
        return int(here)
