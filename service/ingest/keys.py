"""API keys: made, listed and revoked by an operator, and checked for every request."""

import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from service.core.access import (
    EVERY_WORKSPACE,
    MAX_KEY_NAME,
    SECRET_BYTES,
    Access,
    Allowance,
    ApiKey,
    KeyScope,
    grant,
    hash_secret,
    is_good,
    key_text,
    open_access,
    split_key,
    workspace_name,
)
from service.core.text import is_storable
from service.errors import InvalidInput, KeyNotFound, RateLimited, Unauthenticated
from service.ingest.key_ring import KeyRing
from service.ingest.key_uses import KeyUses
from service.model import Workspace
from service.ports.keys import KeyLedger

REMEMBERED: Final = 10_000  # keys; the least recently used go first


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """A key to make. `rate` is in requests a second, None for the service's default."""

    name: str
    workspaces: frozenset[str]
    scopes: frozenset[KeyScope]
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class MadeKey:
    """A new key and its text, which is told once and kept nowhere."""

    key: ApiKey
    text: str


class KeyControl:
    """What an operator does with keys."""

    def __init__(self, ledger: KeyLedger, clock: Callable[[], datetime]) -> None:
        self._ledger = ledger
        self._clock = clock

    async def create(self, order: KeyOrder) -> MadeKey:
        """Make a key. From the first one on, every request needs one. Raises InvalidInput."""
        _check(order)
        key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(SECRET_BYTES)
        key = ApiKey(
            key_id=key_id,
            name=order.name,
            secret_hash=hash_secret(secret),
            workspaces=frozenset(
                EVERY_WORKSPACE if name == EVERY_WORKSPACE else workspace_name(name)
                for name in order.workspaces
            ),
            scopes=order.scopes,
            rate=order.rate,
            created_at=self._clock(),
        )
        await self._ledger.add(key)
        return MadeKey(key, key_text(key_id, secret))

    async def list(self) -> Sequence[ApiKey]:
        """Every key, oldest first, revoked ones too."""
        return await self._ledger.all()

    async def revoke(self, key_id: str) -> ApiKey:
        """Revoke a key for good; again changes nothing. Raises KeyNotFound."""
        parts = split_key(key_id)  # a whole key is understood too: its owner has nothing else at hand
        key = await self._ledger.revoke(parts[0] if parts else key_id, self._clock())
        if key is None:
            raise KeyNotFound("there is no such key")
        return key


def _check(order: KeyOrder) -> None:
    """Raises InvalidInput."""
    if not 1 <= len(order.name.strip()) <= MAX_KEY_NAME or not is_storable(order.name):
        raise InvalidInput(f"a key's name has 1 to {MAX_KEY_NAME} characters", field="name")
    if not order.scopes:
        raise InvalidInput("a key needs at least one scope", field="scopes")
    if not order.workspaces:
        raise InvalidInput("a key needs at least one workspace", field="workspaces")
    if order.rate is not None and not (math.isfinite(order.rate) and 0 < order.rate <= 1e6):
        raise InvalidInput("a rate is a number of requests a second, above 0", field="rate")


class Gatekeeper:
    """Decides what a request may do, from its key and the workspace it asks for.

    No request costs the store a statement: keys are in memory (`key_ring`), uses are written in the background.
    `rate` is the default allowance in requests a second, 0.0 for no limit.
    """

    def __init__(
        self, ledger: KeyLedger, clock: Callable[[], datetime], default: Workspace, rate: float = 0.0
    ) -> None:
        self._ring = KeyRing(ledger)
        self._uses = KeyUses(ledger)
        self._clock = clock
        self._default = default
        self._rate = rate
        self._allowances: OrderedDict[str, Allowance] = OrderedDict()

    async def is_locked(self) -> bool:
        """Whether keys exist, so that requests need one. Raises StoreUnavailable."""
        return not await self._ring.is_empty()

    async def admit(self, key: str | None, asked: str | None) -> Access:
        """What the bearer of a key may do in the workspace asked for.

        Raises Unauthenticated, Forbidden, RateLimited, InvalidInput, StoreUnavailable.
        """
        if not await self.is_locked():
            return open_access(asked, self._default)
        if key is None:
            raise Unauthenticated("this service needs an API key: Authorization: Bearer cw_…")
        good = await self._good(key)
        self._spend(good)
        access = grant(good, asked, self._default)
        self._uses.note(good, self._clock())
        return access

    async def close(self) -> None:
        """Write down the last uses that were not yet."""
        await self._ring.close()
        await self._uses.close()

    async def _good(self, text: str) -> ApiKey:
        parts = split_key(text)
        key = None if parts is None else await self._ring.find(parts[0])
        secret = "" if parts is None else parts[1]
        if not is_good(key, secret) or key is None:
            raise Unauthenticated("the API key is unknown, altered or revoked")
        return key

    def _spend(self, key: ApiKey) -> None:
        rate = self._rate if key.rate is None else key.rate
        if rate <= 0.0:
            return
        now = time.monotonic()
        allowance = self._allowances.get(key.key_id)
        if allowance is None or allowance.rate != rate:
            allowance = self._allowances[key.key_id] = Allowance.full(rate, now)
        self._allowances.move_to_end(key.key_id)
        while len(self._allowances) > REMEMBERED:
            self._allowances.popitem(last=False)
        wait = allowance.take(now)
        if wait > 0.0:
            raise RateLimited(
                f"this key may ask {rate:g} times a second", retry_after=min(3_600, math.ceil(wait))
            )
