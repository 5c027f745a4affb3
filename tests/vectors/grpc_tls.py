"""A script: the server adapter over gRPC and TLS. Arguments: a certificate and its key.

Prints the name of the error that a search raises, with the certificate as authority and without: a real
server that knows no collection, and none that is believed.
"""

import asyncio
import sys
from pathlib import Path

import grpc  # type: ignore[import-untyped]  # ships no type information

from service.adapters.vectors.qdrant_server.index import ServerVectorIndex, connect
from service.adapters.vectors.qdrant_server.settings import CollectionSettings, ServerSettings, Transport
from service.ports.vectors import VectorStoreError
from tests.vectors.grpc_faults import Failing
from tests.vectors.parts import COLLECTION, nearest, soon, unit_rows


async def outcome(port: int, authority: Path | None) -> str:
    """The error's name."""
    settings = ServerSettings(
        "https://127.0.0.1", transport=Transport.GRPC, grpc_port=port, authority=authority
    )
    index = ServerVectorIndex(connect(settings), CollectionSettings())
    try:
        await index.search(COLLECTION, nearest(unit_rows(1)[0], 5), soon(20.0))
    except VectorStoreError as error:
        return type(error).__name__
    finally:
        await index.close()
    return "nothing"


async def main() -> None:
    """Ask with the authority, then without."""
    signed, key = Path(sys.argv[1]), Path(sys.argv[2])
    pair = (key.read_bytes(), signed.read_bytes())  # noqa: ASYNC240 - nobody else waits here
    credentials = grpc.ssl_server_credentials([pair])
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Failing("NOT_FOUND"),))
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    for authority in (signed, None):
        sys.stdout.write(f"{await outcome(port, authority)}\n")
    await server.stop(None)


if __name__ == "__main__":
    asyncio.run(main())
