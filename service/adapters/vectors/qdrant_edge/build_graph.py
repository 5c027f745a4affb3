"""The process that builds a graph: copies a shard that nobody writes to, builds, and ends.

It says "copied" on its socket when writes to the source may go on. Its exit code is that of a shard's
process; the target is of use only after a clean exit.
"""

import os
import shutil
import socket
import sys

import msgspec
from qdrant_edge import EdgeShard

from service.adapters.vectors.qdrant_edge.engine import (
    EngineBusy,
    EngineError,
    EngineFull,
    graph_config,
    translated,
)
from service.adapters.vectors.qdrant_edge.launch import COPIED, BuildOptions, Exit, die_with

_NICENESS = 10  # what serves goes first


def build(options: BuildOptions, connection: socket.socket) -> Exit:
    """Copy, build, and close."""
    try:
        shutil.copytree(options.source, options.target)
        connection.sendall(COPIED)
        with translated():
            shard = EdgeShard.load(options.target, graph_config(options))
            shard.optimize()
            shard.flush()
            shard.close()
    except (EngineError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return _meaning(error)
    return Exit.CLEAN


def _meaning(error: EngineError | OSError) -> Exit:
    if isinstance(error, EngineFull | OSError):
        return Exit.FULL
    return Exit.BUSY if isinstance(error, EngineBusy) else Exit.DAMAGED


def main() -> None:
    """Run as `python -m …build_graph '<options>'`."""
    options = msgspec.json.decode(sys.argv[1], type=BuildOptions)
    die_with(options.parent)
    os.nice(_NICENESS)
    with socket.socket(fileno=options.descriptor) as connection:
        code = build(options, connection)
    sys.exit(code)


if __name__ == "__main__":
    main()
