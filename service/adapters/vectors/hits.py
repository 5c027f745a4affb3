"""The one order of candidates."""

import math
from collections.abc import Iterable

from service.ports.vectors import Hit, MalformedAnswer


def best_first(hits: Iterable[Hit]) -> tuple[Hit, ...]:
    """Score descending, then key. A point that comes twice stays twice: how many came tells if there are more.

    Raises:
        MalformedAnswer: a score is not finite, so there is no order.
    """
    ranked = sorted(hits, key=lambda hit: (-hit.score, hit.key))
    if not all(math.isfinite(hit.score) for hit in ranked):
        raise MalformedAnswer("a score of the vector store is not finite")
    return tuple(ranked)
