"""What bootstrap decides about a Qdrant server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from service.ports.vectors import CollectionName

FORMER_PREFIX = "citewell-"  # of every deployment, before names told deployments apart
_SHOWN = 12  # of a database's id: enough to tell the databases of a server apart


class Transport(StrEnum):
    """How the client speaks to the server."""

    REST = "rest"
    GRPC = "grpc"


class Quantization(StrEnum):
    """Whether candidates are found among int8 copies in memory, and rescored."""

    INT8 = "int8"
    NONE = "none"


class Residence(StrEnum):
    """Where full-precision vectors and payloads are."""

    DISK = "disk"
    MEMORY = "memory"


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
class Deployment:
    """Whose collections these are: the database's id, which is written into each of them.

    `former` are the collections that this database filled when all deployments had one prefix: names, and
    the incarnations that it saw. Only those may go on under the former prefix.
    """

    database: str
    former: Mapping[CollectionName, str] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """No other database's collections begin so."""
        return f"{FORMER_PREFIX}{self.database[:_SHOWN]}-"


@dataclass(frozen=True, slots=True)
class CollectionSettings:
    """How collections are made and searched.

    `prefix` keeps deployments that share a server apart; `deployment` tells whether a collection with that
    name is this one's. Without one, every collection with the prefix is.
    """

    prefix: str = FORMER_PREFIX
    deployment: Deployment | None = None
    links: int = 16
    build_depth: int = 100
    search_depth: int = 128
    quantization: Quantization = Quantization.INT8
    oversampling: float = 2.0
    residence: Residence = Residence.DISK
    shards: int = 1
    replicas: int = 1

    @property
    def alias(self) -> str:
        """Points at the collection that serves."""
        return f"{self.prefix}active"

    @property
    def former(self) -> Mapping[CollectionName, str]:
        """What may go on under the former prefix."""
        return {} if self.deployment is None else self.deployment.former
