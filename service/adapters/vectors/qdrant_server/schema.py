"""How a collection is laid out on a server."""

import uuid
from dataclasses import dataclass

from qdrant_client import models

from service.adapters.vectors.payload import SCOPE, WORKSPACE
from service.adapters.vectors.qdrant_server.settings import CollectionSettings
from service.ports.vectors import DimensionMismatch

INCARNATION = "incarnation"
PAYLOAD_INDEXES = {
    WORKSPACE: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    SCOPE: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """The parameters of a new collection of this dimension."""

    dimension: int
    settings: CollectionSettings

    @property
    def vectors(self) -> models.VectorParams:
        """Cosine over full-precision vectors, on disk."""
        return models.VectorParams(size=self.dimension, distance=models.Distance.COSINE, on_disk=True)

    @property
    def graph(self) -> models.HnswConfigDiff:
        """No graph over everything, but one of each workspace and scope: see payload.py."""
        return models.HnswConfigDiff(
            m=0, payload_m=self.settings.links, ef_construct=self.settings.build_depth
        )

    @property
    def quantization(self) -> models.ScalarQuantization:
        """int8 copies in memory, for finding candidates."""
        scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        return models.ScalarQuantization(scalar=scalar)

    @property
    def confirming_replicas(self) -> int:
        """So many replicas confirm a write."""
        return self.settings.replicas // 2 + 1

    @staticmethod
    def fresh_metadata() -> dict[str, str]:
        """Tells this collection from any other that had or will have its name."""
        return {INCARNATION: uuid.uuid4().hex}


def search_parameters(settings: CollectionSettings) -> models.SearchParams:
    """Rescore what int8 found."""
    rescoring = models.QuantizationSearchParams(rescore=True, oversampling=settings.oversampling)
    return models.SearchParams(hnsw_ef=settings.search_depth, quantization=rescoring)


def dimension_of(info: models.CollectionInfo) -> int:
    """Raises DimensionMismatch for a collection that does not hold one plain vector a point."""
    vectors = info.config.params.vectors
    if not isinstance(vectors, models.VectorParams):
        raise DimensionMismatch("the collection does not hold one vector a point")
    return vectors.size


def incarnation_of(info: models.CollectionInfo) -> str:
    """Empty when somebody else made the collection."""
    return str((info.config.metadata or {}).get(INCARNATION, ""))
