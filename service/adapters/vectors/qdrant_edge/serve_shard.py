"""The process of one shard: takes requests from its parent, calls Edge, answers. One thread."""

import socket
import sys
import time
from contextlib import closing, suppress

import msgspec
import numpy as np

from service.adapters.vectors.qdrant_edge.engine import Damaged, EngineBusy, EngineError, EngineFull
from service.adapters.vectors.qdrant_edge.inbox import Asked, Inbox
from service.adapters.vectors.qdrant_edge.launch import Exit, ShardOptions, die_with
from service.adapters.vectors.qdrant_edge.shard import Shard
from service.adapters.vectors.qdrant_edge.wire import (
    UNASKED,
    Answer,
    Count,
    Counted,
    Delete,
    Done,
    Export,
    Exported,
    Failed,
    Failure,
    Flush,
    Hits,
    Ids,
    Page,
    Ready,
    Search,
    Upsert,
    frame,
    pack_ids,
    unpack_ids,
)

_SETTLED_SECONDS = 1.0  # without a write, then what was written is flushed: reads may never pause so long
_WRITES_BEFORE_FLUSH = 500  # so that the log, which is replayed when opening, stays short
_LOCK_SECONDS = 10.0  # for a predecessor that is still dying


def answer(shard: Shard, asked: Asked) -> tuple[Answer, bytes]:
    """Do what was asked. Raises Damaged; other failures are answers."""
    if asked.expired:
        return Failed(Failure.EXPIRED, ""), b""
    shard.check_place()
    try:
        if isinstance(asked.request, Upsert | Delete | Flush):
            return _write(shard, asked.request, asked.body)
        return _read(shard, asked.request, asked.body)
    except EngineFull as error:
        return Failed(Failure.FULL, str(error)), b""
    except EngineError as error:
        return Failed(Failure.ENGINE, str(error)), b""


def _read(shard: Shard, request: Search | Page | Count | Export, body: bytes) -> tuple[Answer, bytes]:
    match request:
        case Search(workspace, content_type, limit):
            vector = np.frombuffer(body, dtype="<f4")
            return Hits(shard.search(vector, workspace, content_type, limit)), b""
        case Page(workspace, start, limit):
            first = unpack_ids(start)[0] if start else None
            return Ids(), pack_ids(shard.page(workspace, first, limit))
        case Count(workspace):
            return Counted(shard.count(workspace)), b""
        case Export():
            points, vectors = shard.export(unpack_ids(body))
            return Exported(points), vectors.tobytes()


def _write(shard: Shard, request: Upsert | Delete | Flush, body: bytes) -> tuple[Answer, bytes]:
    match request:
        case Upsert(points):
            shard.upsert(points, np.frombuffer(body, dtype="<f4").reshape(len(points), -1))
        case Delete():
            shard.delete(unpack_ids(body))
        case Flush():
            shard.flush()
    return Done(shard.points, shard.outside_graph), b""


class ShardServer:
    """Answers until the parent is gone."""

    def __init__(self, connection: socket.socket, shard: Shard) -> None:
        self._connection = connection
        self._shard = shard
        self._unflushed = 0
        self._wrote_at = 0.0

    def run(self) -> None:
        """Raises Damaged when the shard turns out not to be whole; the call that found it is told."""
        self._send(UNASKED, Ready(self._shard.points, self._shard.outside_graph), b"")
        with closing(Inbox(self._connection)) as inbox, suppress(EOFError):
            self._answer_all(inbox)

    def _answer_all(self, inbox: Inbox) -> None:
        while True:
            asked = inbox.next(self._until_flush() if self._unflushed else None)
            if asked is not None:
                self._serve(asked)
            if self._unflushed >= _WRITES_BEFORE_FLUSH or (self._unflushed and not self._until_flush()):
                self._flush()

    def _until_flush(self) -> float:
        """Seconds until the last write counts as settled; 0 when it does."""
        return max(0.0, self._wrote_at + _SETTLED_SECONDS - time.monotonic())

    def _serve(self, asked: Asked) -> None:
        try:
            reply, body = answer(self._shard, asked)
        except Damaged as error:
            self._send(asked.call, Failed(Failure.DAMAGED, str(error)), b"")
            raise
        if isinstance(asked.request, Upsert | Delete):
            self._unflushed += 1
            self._wrote_at = time.monotonic()
        elif isinstance(asked.request, Flush):
            self._unflushed = 0
        self._send(asked.call, reply, body)

    def _send(self, call: int, reply: Answer | Ready, body: bytes) -> None:
        self._connection.sendall(frame(call, 0.0, reply, body))

    def _flush(self) -> None:
        self._unflushed = 0
        self._shard.check_place()
        try:
            self._shard.flush()
        except EngineError as error:  # the log has every point still; the next flush tries again
            _say(f"flush failed: {error}")


def _opened(options: ShardOptions) -> Shard:
    give_up = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return Shard.open(options)
        except EngineBusy:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.05)


def serve(options: ShardOptions) -> Exit:
    """Open the shard and serve it until the parent is gone."""
    with socket.socket(fileno=options.descriptor) as connection:
        try:
            shard = _opened(options)
            ShardServer(connection, shard).run()
            shard.flush()
            shard.close()
        except (EngineFull, EngineBusy) as error:
            _say(str(error))
            return Exit.FULL if isinstance(error, EngineFull) else Exit.BUSY
        except (EngineError, Damaged) as error:
            _say(str(error))
            return Exit.DAMAGED
        except (BrokenPipeError, ConnectionResetError):
            return Exit.CLEAN
    return Exit.CLEAN


def _say(what: str) -> None:
    sys.stderr.write(f"{what}\n")


def main() -> None:
    """Run as `python -m …serve_shard '<options>'`."""
    options = msgspec.json.decode(sys.argv[1], type=ShardOptions)
    die_with(options.parent)
    sys.exit(serve(options))


if __name__ == "__main__":
    main()
