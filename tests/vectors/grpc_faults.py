"""A script: the server adapter over gRPC, against real servers that fail as the arguments say.

Prints the name of the error that a search raises, one a line. A fault is a status code and its details,
or `silent` (accepts and never answers) or `refused` (nobody listens).
"""

import asyncio
import sys

import grpc  # type: ignore[import-untyped]  # ships no type information

from service.adapters.vectors.qdrant_server.index import ServerVectorIndex, connect
from service.adapters.vectors.qdrant_server.settings import CollectionSettings, ServerSettings, Transport
from service.ports.vectors import VectorStoreError
from tests.vectors.parts import COLLECTION, nearest, soon, unit_rows


class Failing(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc ships no type information
    """Fails every method in one way."""

    def __init__(self, fault: str) -> None:
        self._name, _, self._details = fault.partition(" ")

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """Every method is known."""
        return grpc.unary_unary_rpc_method_handler(self._fail)

    async def _fail(self, request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        if self._name == "silent":
            await asyncio.sleep(60)
        await context.abort(grpc.StatusCode[self._name], self._details)
        return b""


async def outcome(fault: str) -> str:
    """The error's name."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Failing(fault),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    if fault == "refused":
        await server.stop(None)
    settings = ServerSettings("http://127.0.0.1", transport=Transport.GRPC, grpc_port=port)
    index = ServerVectorIndex(connect(settings), CollectionSettings())
    try:
        await index.search(COLLECTION, nearest(unit_rows(1)[0], 5), soon(0.5))
    except VectorStoreError as error:
        return type(error).__name__
    finally:
        await index.close()
        await server.stop(None)
    return "nothing"


async def main() -> None:
    """Run every fault in turn."""
    for fault in sys.argv[1:]:
        sys.stdout.write(f"{await outcome(fault)}\n")


if __name__ == "__main__":
    asyncio.run(main())
