"""How a collection is laid out on a server."""

import uuid
from dataclasses import dataclass

from qdrant_client import models

from service.adapters.vectors.payload import SCOPE, WORKSPACE
from service.adapters.vectors.qdrant_server.settings import CollectionSettings, Quantization, Residence
from service.ports.vectors import DimensionMismatch

INCARNATION = "incarnation"
OWNER = "owner"  # the id of the database whose vectors these are
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
    def on_disk(self) -> bool:
        """Of vectors and payloads."""
        return self.settings.residence is Residence.DISK

    @property
    def vectors(self) -> models.VectorParams:
        """Cosine over full-precision vectors."""
        return models.VectorParams(size=self.dimension, distance=models.Distance.COSINE, on_disk=self.on_disk)

    @property
    def graph(self) -> models.HnswConfigDiff:
        """No graph over everything, but one of each workspace and scope: see payload.py."""
        return models.HnswConfigDiff(
            m=0, payload_m=self.settings.links, ef_construct=self.settings.build_depth
        )

    @property
    def quantization(self) -> models.ScalarQuantization | None:
        """int8 copies in memory, for finding candidates."""
        if self.settings.quantization is Quantization.NONE:
            return None
        scalar = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        return models.ScalarQuantization(scalar=scalar)

    @property
    def confirming_replicas(self) -> int:
        """So many replicas confirm a write."""
        return self.settings.replicas // 2 + 1

    def fresh_metadata(self) -> dict[str, str]:
        """Tells this collection from any other that had or will have its name, and whose it is."""
        fresh = {INCARNATION: uuid.uuid4().hex}
        if self.settings.deployment is not None:
            fresh[OWNER] = self.settings.deployment.database
        return fresh


def search_parameters(settings: CollectionSettings) -> models.SearchParams:
    """Rescore what int8 found; a collection without int8 copies is searched in full precision anyway."""
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


def owner_of(info: models.CollectionInfo) -> str:
    """The database that made the collection; empty where none has said so."""
    return str((info.config.metadata or {}).get(OWNER, ""))
