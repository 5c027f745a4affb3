"""Where API keys are kept."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from service.core.access import ApiKey


class KeyLedger(Protocol):
    """The keys of an instance. Nothing is ever removed: a revoked key stays on record."""

    async def find(self, key_id: str) -> ApiKey | None:
        """A key, revoked or not. Raises StoreUnavailable."""
        ...

    async def has_any(self) -> bool:
        """Whether a key was ever made. Raises StoreUnavailable."""
        ...

    async def all(self) -> Sequence[ApiKey]:
        """Every key, oldest first."""
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
