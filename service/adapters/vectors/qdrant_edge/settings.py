"""What bootstrap decides about the embedded vector store."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

MEBIBYTE = 1 << 20


class Quantization(StrEnum):
    """How vectors are kept in an HNSW segment besides in full precision."""

    INT8 = "int8"  # 2.5 times faster to build and to search; rescored in full precision
    NONE = "none"


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """The HNSW graph and how it is searched."""

    links: int = 16
    build_depth: int = 100
    search_depth: int = 128
    quantization: Quantization = Quantization.INT8
    oversampling: float = 2.0
    threads: int = 1  # the builder shares the machine with what serves


@dataclass(frozen=True, slots=True)
class EdgeSettings:
    """Where collections live, and the bounds of their processes.

    `exact_points`: so many points outside the graph are searched exactly; more, and a graph is built
    once no write has come for `settle_seconds`. `reserve_bytes`: no write is made when the file system
    has less free, because a full one kills a process that writes to mapped files. `stall_seconds`:
    a process that has said nothing for so long while a call timed out is replaced.
    """

    root: Path
    exact_points: int = 20_000
    settle_seconds: float = 2.0
    graph: GraphSettings = GraphSettings()
    reserve_bytes: int = 64 * MEBIBYTE
    calls_in_flight: int = 256
    start_seconds: float = 60.0
    stall_seconds: float = 30.0
    backoff_seconds: tuple[float, float] = (0.1, 5.0)
