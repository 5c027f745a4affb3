"""Where API keys are kept."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from service.core.access import ApiKey


@dataclass(frozen=True, slots=True)
class KeyCensus:
    """How many keys were ever made, and how many of them are revoked.

    Two that are equal are of the same keys: a key is never removed nor given back, and only its last use changes.
    """

    made: int
    revoked: int


class KeyLedger(Protocol):
    """The keys of an instance. Nothing is ever removed: a revoked key stays on record."""

    async def census(self) -> KeyCensus:
        """What there is now. Raises StoreUnavailable."""
        ...

    async def all(self) -> Sequence[ApiKey]:
        """Every key, oldest first. Raises StoreUnavailable."""
        ...

    async def add(self, key: ApiKey) -> None:
        """Store a new key."""
        ...

    async def revoke(self, key_id: str, at: datetime) -> ApiKey | None:
        """The key, revoked now unless it was already; None for an unknown id."""
        ...

    async def note_use(self, used: Mapping[str, datetime]) -> None:
        """Remember when keys were used last; an earlier moment than the known one changes nothing."""
        ...
