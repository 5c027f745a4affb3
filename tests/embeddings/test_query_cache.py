"""The cache of query vectors."""

import numpy as np
import pytest

from embeddings.query_cache import Role, VectorCache
from embeddings.vectors import Vectors


def vector(value: float) -> Vectors:
    """A recognisable vector."""
    return np.array([value], dtype=np.float32)


def test_the_least_recently_used_goes_first() -> None:
    """Reading counts as use; the capacity is kept."""
    cache = VectorCache(2)
    for number, text in enumerate("ab"):
        cache.put("f", Role.QUERY, text, vector(number))
    assert cache.get("f", Role.QUERY, "a") is not None
    cache.put("f", Role.QUERY, "c", vector(2))
    assert len(cache) == 2
    assert cache.get("f", Role.QUERY, "b") is None
    assert cache.get("f", Role.QUERY, "a") is not None


def test_fingerprint_role_and_text_tell_entries_apart() -> None:
    """C24: a vector made under another fingerprint, or for the other side, is never returned."""
    cache = VectorCache(8)
    cache.put("f", Role.QUERY, "a", vector(1))
    assert cache.get("g", Role.QUERY, "a") is None
    assert cache.get("f", Role.PASSAGE, "a") is None
    assert cache.get("f", Role.QUERY, "A") is None


def test_held_vectors_cannot_be_written_to() -> None:
    """One caller cannot change what the next one gets."""
    cache = VectorCache(8)
    cache.put("f", Role.QUERY, "a", vector(1))
    held = cache.get("f", Role.QUERY, "a")
    assert held is not None
    with pytest.raises(ValueError, match="read-only"):
        held[0] = 9


def test_no_capacity_holds_nothing() -> None:
    """A capacity of 0 switches the cache off."""
    cache = VectorCache(0)
    cache.put("f", Role.QUERY, "a", vector(1))
    assert len(cache) == 0
