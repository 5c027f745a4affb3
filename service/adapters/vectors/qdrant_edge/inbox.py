"""Frames that have arrived at a shard's process, searches first."""

import selectors
import socket
import time
from collections import deque
from dataclasses import dataclass

from service.adapters.vectors.qdrant_edge.wire import HEAD, REQUESTS, Delete, Flush, Head, Request, Upsert

_READS_IN_A_ROW = 8  # then a waiting write has its turn
_RECEIVE = 1 << 18


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it arrived."""

    call: int
    deadline: float
    request: Request
    body: bytes

    @property
    def expired(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self.deadline <= time.monotonic()


class Inbox:
    """Requests of one connection. Writes keep their order; reads overtake them."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection, selectors.EVENT_READ)
        self._bytes = bytearray()
        self._reads: deque[Asked] = deque()
        self._writes: deque[Asked] = deque()
        self._reads_in_a_row = 0

    def close(self) -> None:
        """Stop watching the connection, which stays open."""
        self._selector.close()

    def next(self, patience: float | None) -> Asked | None:
        """The next request, or None when none came within `patience` seconds (None: for ever).

        Raises:
            EOFError: the other side is gone; what it asked last is not worth doing.
            BadFrame | msgspec.MsgspecError: it does not speak this protocol.
        """
        idle = not (self._reads or self._writes)
        self._receive(patience if idle else 0.0)
        return self._choose() if self._reads or self._writes else None

    def _choose(self) -> Asked:
        if self._reads and (self._reads_in_a_row < _READS_IN_A_ROW or not self._writes):
            self._reads_in_a_row += 1
            return self._reads.popleft()
        self._reads_in_a_row = 0
        return self._writes.popleft()

    def _receive(self, patience: float | None) -> None:
        while self._selector.select(patience):
            arrived = self._connection.recv(_RECEIVE, socket.MSG_DONTWAIT)
            if not arrived:
                raise EOFError
            self._bytes += arrived
            self._sort()
            patience = 0.0

    def _sort(self) -> None:
        start = 0
        while len(self._bytes) - start >= HEAD.size:
            head = Head.read(self._bytes[start : start + HEAD.size])
            body_at = start + HEAD.size + head.message
            end = body_at + head.body
            if len(self._bytes) < end:
                break
            request = REQUESTS.decode(self._bytes[start + HEAD.size : body_at])
            asked = Asked(head.call, head.deadline, request, bytes(self._bytes[body_at:end]))
            (self._writes if isinstance(request, Upsert | Delete | Flush) else self._reads).append(asked)
            start = end
        del self._bytes[:start]
