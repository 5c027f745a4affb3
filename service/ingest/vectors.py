"""The vector worker: follows the change log at its own pace and keeps a collection equal to the live rows.

Every step can be repeated: ids are deterministic, vectors are cached by text, and progress is recorded only
after the index has acknowledged. So a worker that is killed anywhere loses nothing and repeats nothing harmful.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from service.ports.embedding import (
    CollectionRole,
    Embeddable,
    Encoder,
    EncoderBusy,
    EncoderFailed,
    EncoderState,
    KnownCollection,
    VectorLedger,
    serving_collection,
)
from service.ports.tracing import UNTRACED, Step, Tracer
from service.ports.vectors import (
    CollectionName,
    PointKey,
    VectorIndex,
    VectorPoint,
    collection_name,
    point_id,
)

if TYPE_CHECKING:
    from service.ports.vectors import Float32Array

UNKNOWN_WINDOWS = 16  # windows removed of a stale passage whose own number is not in the cache any more


class StepOutcome(StrEnum):
    """What one step of the worker did."""

    IDLE = "idle"
    WORKED = "worked"
    NO_MODEL = "no_model"
    OTHER_MODEL = "other_model"  # another model's collection serves; changing it is a migration
    OTHER_WORKER = "other_worker"


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """`changes` log entries a step, `page` passages at a time, `batch` texts an encoder call."""

    changes: int = 200
    page: int = 512
    batch: int = 64
    write_timeout: float = 30.0
    lease_seconds: float = 60.0


@dataclass(slots=True)
class WorkerCounters:
    """What the worker has done since it started."""

    encoded: int = 0
    from_cache: int = 0
    upserted: int = 0
    deleted: int = 0
    parked: int = 0


@dataclass(slots=True)
class VectorWorker:
    """Brings collections up to the change log. One owner at a time, by a lease in SQL."""

    ledger: VectorLedger
    index: VectorIndex
    encoder: Encoder
    model: str
    settings: WorkerSettings = field(default_factory=WorkerSettings)
    counters: WorkerCounters = field(default_factory=WorkerCounters)
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)
    tracer: Tracer = UNTRACED

    async def step(self) -> StepOutcome:
        """Apply the next entries of the log to this model's collection.

        Raises StoreUnavailable, VectorStoreError, EncoderFailed; the next step begins where this one did.
        """
        if self.encoder.state is not EncoderState.READY:
            return StepOutcome.NO_MODEL
        collection = await self.collection()
        if collection is None:
            return StepOutcome.OTHER_MODEL
        if not await self.hold(collection):
            return StepOutcome.OTHER_WORKER
        return await self.follow(collection)

    async def hold(self, collection: KnownCollection) -> bool:
        """Take or renew the right to write a collection alone; False while another worker has it."""
        seconds = self.settings.lease_seconds
        return await self.ledger.lease(lease_name(collection), self.owner, seconds)

    async def follow(self, collection: KnownCollection) -> StepOutcome:
        """One batch of the log into one collection."""
        state = await self.index.ensure(collection.name, collection.dimension, self._deadline())
        progress = await self.ledger.progress(collection.name)
        after = 0 if progress is None or progress.incarnation != state.incarnation else progress.seq
        item_keys, last = await self.ledger.item_changes(after, self.settings.changes)
        if last == after:
            return StepOutcome.IDLE
        if item_keys:  # a step without work has no span: there are two a second
            with self.tracer.span(Step.WORKER_STEP) as span:
                span.note("changes", last - after)
                span.note("items", len(item_keys))
                await self._apply(collection, item_keys)
        await self.ledger.save_progress(collection.name, state.incarnation, last)
        return StepOutcome.WORKED

    async def release(self) -> None:
        """Let another worker go on at once."""
        for collection in await self.ledger.collections():
            await self.ledger.release(lease_name(collection), self.owner)

    async def retry_parked(self, collection: KnownCollection, limit: int = 100) -> int:
        """Try the passages that were set aside once more; how many are well now."""
        parked = await self.ledger.parked(collection.name, limit)
        well = 0
        for one in parked:
            passages = await self.ledger.embeddable(None, one.passage_key - 1, 1)
            found = [p for p in passages if p.passage_key == one.passage_key]
            before = self.counters.parked
            await self.write(collection, found)
            if self.counters.parked == before:
                await self.ledger.unpark(collection.name, [one.passage_key])
                well += 1
        return well

    async def collection(self) -> KnownCollection | None:
        """The collection that readers with this model search; the first one ever is registered here.

        After a switch to another model the old collection is still followed, until it is dropped: processes
        that were not restarted yet go on searching it.
        """
        known = await self.ledger.collections()
        mine = serving_collection(known, self.encoder.fingerprint)
        if mine is not None:
            return mine
        if any(collection.role is CollectionRole.ACTIVE for collection in known):
            return None
        first = new_collection(self.encoder, self.model, generation=1, role=CollectionRole.ACTIVE)
        await self.ledger.register(first)
        return first

    async def _apply(self, collection: KnownCollection, item_keys: Sequence[int]) -> None:
        after: int | None = None
        while page := await self.ledger.embeddable(item_keys, after, self.settings.page):
            after = page[-1].passage_key
            await self.write(collection, [passage for passage in page if passage.live])
            await self.remove(collection, [passage for passage in page if not passage.live])
            await self.hold(collection)

    async def write(self, collection: KnownCollection, passages: Sequence[Embeddable]) -> None:
        """Embed what the cache does not have, and upsert every window of every passage."""
        for part in _parts(passages, self.settings.page):
            vectors = await self._vectors(collection, part)
            points, rows = points_of(part, vectors)
            if points:
                await self.index.upsert(collection.name, points, _stacked(rows), self._deadline())
                self.counters.upserted += len(points)

    async def remove(self, collection: KnownCollection, passages: Sequence[Embeddable]) -> None:
        """Delete every window of stale passages."""
        if not passages:
            return
        known = await self.ledger.cached_windows(collection.fingerprint, [p.text_hash for p in passages])
        ids = [
            point_id(passage.workspace, PointKey(passage.item_id, passage.seq, window))
            for passage in passages
            for window in range(known.get(passage.text_hash, UNKNOWN_WINDOWS))
        ]
        await self.index.delete(collection.name, ids, self._deadline())
        self.counters.deleted += len(passages)

    async def _vectors(
        self, collection: KnownCollection, passages: Sequence[Embeddable]
    ) -> Mapping[str, Float32Array]:
        """By text hash; passages that cannot be embedded are parked and absent."""
        vectors = dict(await self.ledger.cached(collection.fingerprint, [p.text_hash for p in passages]))
        self.counters.from_cache += len(vectors)
        missing = {p.text_hash: p for p in passages if p.text_hash not in vectors}
        for part in _parts(sorted(missing.values(), key=lambda p: len(p.text)), self.settings.batch):
            fresh = await self._encode(collection.name, part)
            await self.ledger.cache(collection.fingerprint, fresh)
            vectors.update(fresh)
        return vectors

    async def _encode(
        self, collection: CollectionName, passages: Sequence[Embeddable]
    ) -> dict[str, Float32Array]:
        """A batch; when it fails, its passages one by one, so that only the poisonous ones are set aside."""
        try:
            rows = await self.encoder.encode_passages([passage.text for passage in passages])
        except EncoderBusy:
            raise
        except EncoderFailed as error:
            if len(passages) == 1:
                await self.ledger.park(collection, passages[0], str(error))
                self.counters.parked += 1
                return {}
            fresh: dict[str, Float32Array] = {}
            for passage in passages:
                fresh.update(await self._encode(collection, [passage]))
            if not fresh:  # nothing works: it is the encoder that is ill, not the passages
                await self.ledger.unpark(collection, [passage.passage_key for passage in passages])
                self.counters.parked -= len(passages)
                raise
            return fresh
        self.counters.encoded += len(passages)
        return {passage.text_hash: windows for passage, windows in zip(passages, rows, strict=True)}

    def _deadline(self) -> float:
        return time.monotonic() + self.settings.write_timeout


def lease_name(collection: KnownCollection) -> str:
    """One worker a collection."""
    return f"vectors:{collection.name}"


def new_collection(encoder: Encoder, model: str, generation: int, role: CollectionRole) -> KnownCollection:
    """A collection for the encoder's vectors."""
    return KnownCollection(
        name=collection_name(encoder.fingerprint, generation),
        fingerprint=encoder.fingerprint,
        model=model,
        dimension=encoder.dimension,
        role=role,
        created_at=datetime.now(UTC),
    )


def points_of(
    passages: Sequence[Embeddable], vectors: Mapping[str, Float32Array]
) -> tuple[list[VectorPoint], list[Float32Array]]:
    """A point a window, and the passages' window rows in the same order."""
    points: list[VectorPoint] = []
    rows: list[Float32Array] = []
    for passage in passages:
        windows = vectors.get(passage.text_hash)
        if windows is None:
            continue
        rows.append(windows)
        points += [
            VectorPoint(
                passage.workspace, passage.content_type, PointKey(passage.item_id, passage.seq, window)
            )
            for window in range(len(windows))
        ]
    return points, rows


def _stacked(rows: Sequence[Float32Array]) -> Float32Array:
    import numpy as np  # optional: there are no vectors without it  # noqa: PLC0415

    return np.concatenate(rows)


def _parts(passages: Sequence[Embeddable], size: int) -> Iterator[Sequence[Embeddable]]:
    return (passages[start : start + size] for start in range(0, len(passages), size))
