"""Vectors of recent queries, least recently used first out."""

import hashlib
from collections import OrderedDict
from enum import StrEnum

from embeddings.vectors import Vectors

_KEY_BYTES = 16


class Role(StrEnum):
    """Which side of a search a text is on; models treat them differently."""

    QUERY = "query"
    PASSAGE = "passage"


class VectorCache:
    """Up to `capacity` vectors by fingerprint, role and text; texts are kept as digests of 16 bytes.

    Not locked: it belongs to one event loop.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._vectors: OrderedDict[bytes, Vectors] = OrderedDict()

    def __len__(self) -> int:
        return len(self._vectors)

    def get(self, fingerprint: str, role: Role, text: str) -> Vectors | None:
        """The vector, now the most recently used; None when it is not held."""
        key = _key(fingerprint, role, text)
        vector = self._vectors.get(key)
        if vector is not None:
            self._vectors.move_to_end(key)
        return vector

    def put(self, fingerprint: str, role: Role, text: str, vector: Vectors) -> None:
        """Hold a vector; it is made read-only, because every caller gets the same one."""
        vector.setflags(write=False)
        key = _key(fingerprint, role, text)
        self._vectors[key] = vector
        self._vectors.move_to_end(key)
        while len(self._vectors) > self._capacity:
            self._vectors.popitem(last=False)


def _key(fingerprint: str, role: Role, text: str) -> bytes:
    parts = "\0".join((fingerprint, role.value, text))
    return hashlib.blake2b(parts.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest()
