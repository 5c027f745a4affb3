"""The one total order of ranked passages."""

from service.model import ItemId


def rank_key(score: float, item_id: ItemId, seq: int) -> tuple[float, ItemId, int]:
    """Sort key: best score first, equal scores by item id (code points), then by position in the item."""
    return (-score, item_id, seq)
