"""API keys in SQL. Implements KeyLedger."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import func, insert, or_, select, update

from service.adapters.sql import schema
from service.adapters.sql.engine import Engines, begin
from service.adapters.sql.rows import AnyRow
from service.adapters.sql.transaction import lock_counters
from service.core.access import ApiKey, KeyScope
from service.model import Workspace
from service.ports.keys import KeyCensus

_KEYS = schema.api_keys


class SqlKeyLedger:
    """The keys of a database. Writes are serial with every other write."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    async def census(self) -> KeyCensus:
        """What there is now. Raises StoreUnavailable."""
        counted = select(func.count(), func.count(_KEYS.c.revoked_at)).select_from(_KEYS)
        async with begin(self._engines.read) as connection:
            made, revoked = (await connection.execute(counted)).one()
        return KeyCensus(made, revoked)

    async def all(self) -> Sequence[ApiKey]:
        """Every key, oldest first. Raises StoreUnavailable."""
        async with begin(self._engines.read) as connection:
            rows = await connection.execute(select(_KEYS).order_by(_KEYS.c.created_at, _KEYS.c.key_id))
            return [_key(row) for row in rows]

    async def add(self, key: ApiKey) -> None:
        """Store a new key."""
        async with begin(self._engines.write) as connection:
            await lock_counters(connection)
            await connection.execute(
                insert(_KEYS).values(
                    key_id=key.key_id,
                    name=key.name,
                    secret_hash=key.secret_hash,
                    workspaces=sorted(key.workspaces),
                    scopes=sorted(scope.value for scope in key.scopes),
                    rate=key.rate,
                    created_at=key.created_at,
                    last_used_at=key.last_used_at,
                    revoked_at=key.revoked_at,
                )
            )

    async def revoke(self, key_id: str, at: datetime) -> ApiKey | None:
        """The key, revoked now unless it was already; None for an unknown id."""
        async with begin(self._engines.write) as connection:
            await lock_counters(connection)
            await connection.execute(
                update(_KEYS)
                .where(_KEYS.c.key_id == key_id, _KEYS.c.revoked_at.is_(None))
                .values(revoked_at=at)
            )
            row = (await connection.execute(select(_KEYS).where(_KEYS.c.key_id == key_id))).one_or_none()
        return None if row is None else _key(row)

    async def note_use(self, used: Mapping[str, datetime]) -> None:
        """Remember when keys were used last; an earlier moment than the known one changes nothing."""
        async with begin(self._engines.write) as connection:
            await lock_counters(connection)
            for key_id, at in used.items():
                is_older = or_(_KEYS.c.last_used_at.is_(None), _KEYS.c.last_used_at < at)
                await connection.execute(
                    update(_KEYS).where(_KEYS.c.key_id == key_id, is_older).values(last_used_at=at)
                )


def _key(row: AnyRow) -> ApiKey:
    return ApiKey(
        key_id=row.key_id,
        name=row.name,
        secret_hash=row.secret_hash,
        workspaces=frozenset(Workspace(name) for name in row.workspaces),
        scopes=frozenset(KeyScope(name) for name in row.scopes),
        rate=row.rate,
        created_at=row.created_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
    )
