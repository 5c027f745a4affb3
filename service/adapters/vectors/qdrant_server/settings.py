"""What bootstrap decides about a Qdrant server."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Transport(StrEnum):
    """How the client speaks to the server."""

    REST = "rest"
    GRPC = "grpc"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where the server is. `url` with https means TLS; `authority` is a PEM file of a private authority."""

    url: str
    api_key: str | None = field(default=None, repr=False)
    transport: Transport = Transport.REST
    grpc_port: int = 6334
    authority: Path | None = None
    connections: int = 64
    longest_call_seconds: int = 120  # a deadline is usually far shorter


@dataclass(frozen=True, slots=True)
class CollectionSettings:
    """How collections are made and searched.

    `prefix` keeps deployments that share a server apart; `alias` points at the collection that serves.
    Vectors and payloads are on disk, their int8 copies in memory, and hits are rescored in full precision.
    """

    prefix: str = "citewell-"
    alias: str = "citewell-active"
    links: int = 16
    build_depth: int = 100
    search_depth: int = 128
    oversampling: float = 2.0
    shards: int = 1
    replicas: int = 1
