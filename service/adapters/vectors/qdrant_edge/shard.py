"""One open shard: the only code that calls Edge while serving. Lives in a shard's process."""

import os
from pathlib import Path
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from qdrant_edge import (
    CountRequest,
    EdgeShard,
    Filter,
    KeywordIndexParams,
    QuantizationSearchParams,
    Query,
    QueryRequest,
    Sample,
    ScoredPoint,
    ScrollRequest,
    SearchParams,
    UpdateOperation,
)

from service.adapters.vectors.payload import KEY_FIELDS, SCOPE, WORKSPACE
from service.adapters.vectors.qdrant_edge.engine import (
    Damaged,
    EngineFull,
    matching,
    plain_config,
    translated,
)
from service.adapters.vectors.qdrant_edge.launch import Opening, ShardOptions
from service.adapters.vectors.qdrant_edge.rows import as_hit, as_point, as_row, as_uuid
from service.adapters.vectors.qdrant_edge.wire import HitRow, PointRow

_SAMPLE = 8  # points looked at when a shard is opened


class Shard:
    """A shard that was found whole when it was opened. Every method may raise what `translated` does."""

    def __init__(self, engine: EdgeShard, options: ShardOptions) -> None:
        self._engine = engine
        self._folder = Path(options.folder)
        self._reserve = options.reserve_bytes
        self._params = SearchParams(
            hnsw_ef=options.search_depth,
            quantization=QuantizationSearchParams(rescore=True, oversampling=options.oversampling),
        )
        self._dimension = options.dimension
        self._places = self._inodes()

    @classmethod
    def open(cls, options: ShardOptions) -> "Shard":
        """Create or load it. Raises Damaged when what is there is not a whole shard."""
        if options.opening is Opening.CREATE:
            return cls(_created(options), options)
        with translated():
            engine = EdgeShard.load(options.folder, plain_config(options.dimension))
        shard = cls(engine, options)
        shard._look_at_samples()
        return shard

    @property
    def points(self) -> int:
        """Exact number of points."""
        return self._engine.info().points_count

    @property
    def outside_graph(self) -> int:
        """Points that are searched one by one."""
        info = self._engine.info()
        return max(0, info.points_count - info.indexed_vectors_count)

    def search(
        self, vector: NDArray[np.float32], workspace: str, content_type: str | None, limit: int
    ) -> list[HitRow]:
        """The nearest points, best first. Raises Damaged for an answer that no sound shard gives."""
        found = self._query(vector, matching(workspace, content_type), limit, self._params)
        return [as_hit(point) for point in found]

    def upsert(self, points: list[PointRow], vectors: NDArray[np.float32]) -> None:
        """Durable when it returns."""
        self._need_room(vectors.nbytes)
        with translated():
            self._engine.update(
                UpdateOperation.upsert_points(
                    [as_point(row, vector) for row, vector in zip(points, vectors.tolist(), strict=True)]
                )
            )

    def delete(self, ids: list[UUID]) -> None:
        """Durable when it returns; unknown ids are ignored."""
        self._need_room(0)
        with translated():
            self._engine.update(UpdateOperation.delete_points([*ids]))

    def page(self, workspace: str | None, start: UUID | None, limit: int) -> list[UUID]:
        """Ids from `start` on, ascending."""
        request = ScrollRequest(offset=start, limit=limit, filter=matching(workspace), with_payload=False)
        with translated():
            records, _ = self._engine.scroll(request)
        return [as_uuid(record.id) for record in records]

    def count(self, workspace: str | None) -> int:
        """Exact."""
        with translated():
            return self._engine.count(CountRequest(exact=True, filter=matching(workspace)))

    def export(self, ids: list[UUID]) -> tuple[list[PointRow], NDArray[np.float32]]:
        """Those of the points that exist, with their vectors (n, dimension)."""
        with translated():
            records = self._engine.retrieve([*ids], with_payload=True, with_vector=True)
        vectors = np.array([record.vector for record in records], dtype="<f4").reshape(-1, self._dimension)
        return [as_row(record) for record in records], vectors

    def flush(self) -> None:
        """Bring the shard's own files up to date, so that its log stays short."""
        self._need_room(0)
        with translated():
            self._engine.flush()

    def close(self) -> None:
        """Let go of the files."""
        with translated():
            self._engine.close()

    def check_place(self) -> None:
        """Raises Damaged if the folder was deleted or replaced: what is open has no name any more."""
        if self._inodes() != self._places:
            raise Damaged("the folder is not the one that was opened")

    def _inodes(self) -> tuple[int, ...]:
        places = (self._folder, self._folder / "wal", self._folder / "segments")
        try:
            segments = sorted(entry.inode() for entry in os.scandir(places[-1]))
            return (*(place.stat().st_ino for place in places), *segments)
        except OSError as error:
            raise Damaged("the folder is gone") from error

    def _need_room(self, size: int) -> None:
        # A write to a mapped file on a full file system is a fatal signal, not an error: never come near it.
        room = os.statvfs(self._folder)
        if room.f_bavail * room.f_frsize < self._reserve + 4 * size:
            raise EngineFull("less free space than the reserve")

    def _look_at_samples(self) -> None:
        """Points drawn at random are whole and find themselves. Raises Damaged."""
        with translated():
            drawn = self._engine.query(QueryRequest(query=Sample.Random, limit=_SAMPLE))
        if len(drawn) < min(_SAMPLE, self.points):
            raise Damaged("points are counted that cannot be read")
        rows, vectors = self.export([as_uuid(point.id) for point in drawn])
        for row, vector in zip(rows, vectors, strict=True):
            found = self._query(vector, matching(row[1], row[2]), 1, SearchParams(exact=True))
            if not found or not found[0].score > 0.99:
                raise Damaged("a point does not find itself")
            self.search(vector, row[1], row[2], _SAMPLE)

    def _query(
        self, vector: NDArray[np.float32], wanted: Filter | None, limit: int, params: SearchParams
    ) -> list[ScoredPoint]:
        request = QueryRequest(
            query=Query.Nearest(vector.tolist()),
            limit=limit,
            filter=wanted,
            params=params,
            with_payload=KEY_FIELDS,
            with_vector=False,
        )
        with translated():
            return self._engine.query(request)


def _created(options: ShardOptions) -> EdgeShard:
    with translated():
        engine = EdgeShard.create(options.folder, plain_config(options.dimension))
        for field, tenant in ((WORKSPACE, True), (SCOPE, False)):
            engine.update(UpdateOperation.create_field_index(field, KeywordIndexParams(is_tenant=tenant)))
        engine.flush()
    return engine
