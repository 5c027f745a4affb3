"""Vectors of recent queries, least recently used first out."""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum

from embeddings.vectors import Vectors

_KEY_BYTES = 16


class Role(StrEnum):
    """Which side of a search a text is on; models treat them differently."""

    QUERY = "query"
    PASSAGE = "passage"


@dataclass(frozen=True, slots=True)
class CacheKey:
    """What a vector is held under. `partition` is opaque: what one put in is never found from another."""

    fingerprint: str
    role: Role
    partition: str
    text: str

    def digest(self) -> bytes:
        """16 bytes; each part's length goes in, so that no two keys read alike."""
        made = hashlib.blake2b(digest_size=_KEY_BYTES)
        for part in (self.fingerprint, self.role.value, self.partition, self.text):
            raw = part.encode("utf-8", "surrogatepass")
            made.update(len(raw).to_bytes(8, "big"))
            made.update(raw)
        return made.digest()


class VectorCache:
    """Up to `capacity` vectors by their key; keys are held as digests of 16 bytes.

    Not locked: it belongs to one event loop.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._vectors: OrderedDict[bytes, Vectors] = OrderedDict()

    def __len__(self) -> int:
        return len(self._vectors)

    def get(self, key: CacheKey) -> Vectors | None:
        """The vector, now the most recently used; None when it is not held."""
        digest = key.digest()
        vector = self._vectors.get(digest)
        if vector is not None:
            self._vectors.move_to_end(digest)
        return vector

    def put(self, key: CacheKey, vector: Vectors) -> None:
        """Hold a vector; it is made read-only, because every caller gets the same one."""
        vector.setflags(write=False)
        digest = key.digest()
        self._vectors[digest] = vector
        self._vectors.move_to_end(digest)
        while len(self._vectors) > self._capacity:
            self._vectors.popitem(last=False)
