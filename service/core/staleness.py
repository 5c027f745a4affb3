"""The one predicate that decides whether an item may be read by retrieval."""

from datetime import datetime

from service.model import ItemId


def is_stale(retired_at: datetime | None, superseded_by: ItemId | None) -> bool:
    """True for a retired or superseded item. The SQL load applies the same rule as a WHERE clause."""
    return retired_at is not None or superseded_by is not None
