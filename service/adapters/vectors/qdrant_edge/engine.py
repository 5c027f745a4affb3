"""Edge's own ways: its configuration, its filters, and what its bare exceptions mean."""

from collections.abc import Iterator
from contextlib import contextmanager

from qdrant_edge import (
    Distance,
    EdgeConfig,
    EdgeOptimizersConfig,
    EdgeVectorParams,
    FieldCondition,
    Filter,
    HnswIndexConfig,
    MatchValue,
    ScalarQuantizationConfig,
    ScalarType,
)

from service.adapters.vectors.payload import condition
from service.adapters.vectors.qdrant_edge.launch import BuildOptions

_NO_ROOM = ("no space left", "storagefull", "file too large", "filetoolarge", "quota")
_SHORT = ("wouldblock", "too many open files", "cannot allocate memory", "permission denied", "read-only")


class EngineError(Exception):
    """Edge refused or failed; the shard itself may be sound."""


class EngineFull(EngineError):
    """There is no room on the file system."""


class EngineBusy(EngineError):
    """A lock, memory or a permission is missing; says nothing about the shard."""


class Damaged(Exception):
    """What is on disk, or what it answers, is not a whole shard of this collection."""


@contextmanager
def translated() -> Iterator[None]:
    """Edge's errors as ours. A panic inside Edge is no `Exception` and ends the process, as it should."""
    try:
        yield
    except Exception as error:
        said = str(error)
        if any(words in said.lower() for words in _NO_ROOM):
            raise EngineFull(said) from error
        if any(words in said.lower() for words in _SHORT):
            raise EngineBusy(said) from error
        raise EngineError(said) from error


def plain_config(dimension: int) -> EdgeConfig:
    """Exact search. The write-ahead log stays on: it makes points durable and locks the folder."""
    return EdgeConfig(vectors=EdgeVectorParams(size=dimension, distance=Distance.Cosine), wal_enabled=True)


def graph_config(options: BuildOptions) -> EdgeConfig:
    """One segment with graphs. Fewer than `exact_points` matches are still searched exactly."""
    kibibytes_of_exact = max(1, options.exact_points * options.dimension * 4 // 1024)
    return EdgeConfig(
        vectors=EdgeVectorParams(size=options.dimension, distance=Distance.Cosine),
        hnsw_config=HnswIndexConfig(
            m=0,  # no graph over everything: see payload.py
            payload_m=options.links,
            ef_construct=options.build_depth,
            full_scan_threshold=kibibytes_of_exact,
            max_indexing_threads=options.threads,
        ),
        quantization_config=ScalarQuantizationConfig(ScalarType.Int8, quantile=0.99)
        if options.int8
        else None,
        optimizers=EdgeOptimizersConfig(indexing_threshold=1, default_segment_number=1),
    )


def matching(workspace: str | None, content_type: str | None = None) -> Filter | None:
    """Points of the workspace and content type; None stands for all."""
    wanted = condition(workspace, content_type)
    if wanted is None:
        return None
    field, value = wanted
    return Filter(must=[FieldCondition(key=field, match=MatchValue(value))])
