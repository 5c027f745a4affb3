"""The cache of query vectors."""

import numpy as np
import pytest

from embeddings.query_cache import CacheKey, Role, VectorCache
from embeddings.vectors import Vectors


def key(text: str, *, fingerprint: str = "f", role: Role = Role.QUERY, partition: str = "") -> CacheKey:
    """A query's key, of one fingerprint and one partition."""
    return CacheKey(fingerprint, role, partition, text)


def vector(value: float) -> Vectors:
    """A recognisable vector."""
    return np.array([value], dtype=np.float32)


def test_the_least_recently_used_goes_first() -> None:
    """Reading counts as use; the capacity is kept."""
    cache = VectorCache(2)
    for number, text in enumerate("ab"):
        cache.put(key(text), vector(number))
    assert cache.get(key("a")) is not None
    cache.put(key("c"), vector(2))
    assert len(cache) == 2
    assert cache.get(key("b")) is None
    assert cache.get(key("a")) is not None


def test_fingerprint_role_and_text_tell_entries_apart() -> None:
    """C24: a vector made under another fingerprint, or for the other side, is never returned."""
    cache = VectorCache(8)
    cache.put(key("a"), vector(1))
    assert cache.get(key("a", fingerprint="g")) is None
    assert cache.get(key("a", role=Role.PASSAGE)) is None
    assert cache.get(key("A")) is None


def test_a_partition_finds_only_its_own() -> None:
    """U18: what one partition put in is not found from another, however its name and the text are spelt."""
    cache = VectorCache(8)
    cache.put(key("b\0c", partition="a"), vector(1))
    assert cache.get(key("b\0c", partition="a")) is not None
    assert cache.get(key("b\0c")) is None
    assert cache.get(key("c", partition="a\0b")) is None
    assert cache.get(key("\0c", partition="ab")) is None


def test_held_vectors_cannot_be_written_to() -> None:
    """One caller cannot change what the next one gets."""
    cache = VectorCache(8)
    cache.put(key("a"), vector(1))
    held = cache.get(key("a"))
    assert held is not None
    with pytest.raises(ValueError, match="read-only"):
        held[0] = 9


def test_no_capacity_holds_nothing() -> None:
    """A capacity of 0 switches the cache off."""
    cache = VectorCache(0)
    cache.put(key("a"), vector(1))
    assert len(cache) == 0
