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

from service.ingest.encoding import Call, PassageEncoding, Refusal
from service.ingest.lease import Lease, LeaseLost
from service.ports.embedding import (
    CollectionRole,
    Embeddable,
    Encoder,
    EncoderState,
    KnownCollection,
    Parked,
    VectorLedger,
    serving_collection,
)
from service.ports.tracing import UNTRACED, Step, Tracer
from service.ports.vectors import (
    CollectionName,
    PointKey,
    VectorIndex,
    VectorPoint,
    VectorStoreError,
    collection_name,
    point_id,
)

if TYPE_CHECKING:
    from service.ports.vectors import Float32Array

UNKNOWN_WINDOWS = 16  # windows removed of a stale passage whose own number is not in the cache any more
RETRIED_AT_ONCE = 32  # parked passages; each may take several calls of the encoder
MOST_PARKED = 100_000  # read at once; each is a passage number


class StepOutcome(StrEnum):
    """What one step of the worker did."""

    IDLE = "idle"
    WORKED = "worked"
    NO_MODEL = "no_model"
    OTHER_MODEL = "other_model"  # another model's collection serves; changing it is a migration
    OTHER_WORKER = "other_worker"


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """`changes` log entries a step, `page` passages at a time, `batch` texts an encoder call.

    Every `look_every` seconds the index is asked whether the collection is still the one that was filled:
    asking counts its points, which costs a server more than a glance.
    """

    changes: int = 200
    page: int = 512
    batch: int = 64
    write_timeout: float = 30.0
    lease_seconds: float = 60.0
    look_every: float = 5.0


@dataclass(slots=True)
class WorkerCounters:
    """What the worker has done since it started."""

    encoded: int = 0
    from_cache: int = 0
    upserted: int = 0
    deleted: int = 0
    parked: int = 0


@dataclass(frozen=True, slots=True)
class _Seen:
    """A collection's incarnation, and the moment it was seen."""

    incarnation: str
    at: float


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
    _encoding: PassageEncoding = field(default_factory=PassageEncoding)
    _leases: dict[CollectionName, Lease] = field(default_factory=dict)
    _seen: dict[CollectionName, _Seen] = field(default_factory=dict)

    async def step(self) -> StepOutcome:
        """Apply the next entries of the log to this model's collection.

        Raises StoreUnavailable, VectorStoreError, EncoderFailed; the next step begins where this one did.
        """
        if self.encoder.state is not EncoderState.READY:
            return StepOutcome.NO_MODEL
        collection = await self.collection()
        if collection is None:
            return StepOutcome.OTHER_MODEL
        try:
            return await self.follow(collection)
        except LeaseLost:
            return StepOutcome.OTHER_WORKER

    async def hold(self, collection: KnownCollection) -> bool:
        """Take or renew the right to write a collection alone; False while another worker has it."""
        return await self._lease(collection).hold()

    async def require(self, collection: KnownCollection) -> None:
        """Hold that right. Raises LeaseLost."""
        await self._lease(collection).require()

    async def follow(self, collection: KnownCollection) -> StepOutcome:
        """One batch of the log into one collection. Raises LeaseLost while another worker has the right to."""
        await self.require(collection)
        try:
            return await self._follow(collection)
        except VectorStoreError:
            self._seen.pop(collection.name, None)  # it may have been lost
            raise

    async def release(self) -> None:
        """Let another worker go on at once."""
        for lease in self._leases.values():
            await lease.release()

    async def retry_parked(self, collection: KnownCollection) -> int:
        """Try every passage that was set aside once more; how many are well now."""
        return await self._retry(collection, await self.ledger.parked(collection.name, MOST_PARKED))

    async def retry_due(self, collection: KnownCollection) -> int:
        """Try those whose time has come, the longest due first; how many are well now."""
        return await self._retry(
            collection, await self.ledger.due(collection.name, datetime.now(UTC), RETRIED_AT_ONCE)
        )

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

    async def write(
        self, collection: KnownCollection, passages: Sequence[Embeddable]
    ) -> Sequence[Embeddable]:
        """Embed what the cache does not have, upsert every window of every passage; those that were set aside.

        Raises LeaseLost, and nothing more is written.
        """
        aside: list[Embeddable] = []
        for part in _parts(passages, self.settings.page):
            vectors = await self._vectors(collection, part)
            points, rows = points_of(part, vectors)
            await self.require(collection)
            if points:
                await self.index.upsert(collection.name, points, _stacked(rows), self._deadline())
                self.counters.upserted += len(points)
            well = [one.passage_key for one in part if one.text_hash in vectors]
            await self.ledger.unpark(collection.name, well)
            aside += [one for one in part if one.text_hash not in vectors]
        return aside

    async def remove(self, collection: KnownCollection, passages: Sequence[Embeddable]) -> None:
        """Delete every window of stale passages. Raises LeaseLost."""
        if not passages:
            return
        known = await self.ledger.cached_windows(collection.fingerprint, [p.text_hash for p in passages])
        ids = [
            point_id(passage.workspace, PointKey(passage.item_id, passage.seq, window))
            for passage in passages
            for window in range(known.get(passage.text_hash, UNKNOWN_WINDOWS))
        ]
        await self.require(collection)
        await self.index.delete(collection.name, ids, self._deadline())
        self.counters.deleted += len(passages)
        await self.ledger.unpark(collection.name, [passage.passage_key for passage in passages])

    async def _incarnation(self, collection: KnownCollection) -> str:
        """Of the collection as it was seen a moment ago. Progress of another one says nothing of it.

        One that was lost since then is seen soon; what is recorded under its old incarnation counts for nothing.
        """
        seen = self._seen.get(collection.name)
        now = time.monotonic()
        if seen is None or now - seen.at >= self.settings.look_every:
            state = await self.index.ensure(collection.name, collection.dimension, self._deadline())
            seen = _Seen(state.incarnation, now)
            self._seen[collection.name] = seen
        return seen.incarnation

    async def _follow(self, collection: KnownCollection) -> StepOutcome:
        incarnation = await self._incarnation(collection)
        progress = await self.ledger.progress(collection.name)
        after = 0 if progress is None or progress.incarnation != incarnation else progress.seq
        item_keys, last = await self.ledger.item_changes(after, self.settings.changes)
        if last == after:
            return StepOutcome.IDLE
        if item_keys:  # a step without work has no span: there are two a second
            with self.tracer.span(Step.WORKER_STEP) as span:
                span.note("changes", last - after)
                span.note("items", len(item_keys))
                await self._apply(collection, item_keys)
        await self.require(collection)
        await self.ledger.save_progress(collection.name, incarnation, last)
        return StepOutcome.WORKED

    async def _apply(self, collection: KnownCollection, item_keys: Sequence[int]) -> None:
        after: int | None = None
        while page := await self.ledger.embeddable(item_keys, after, self.settings.page):
            after = page[-1].passage_key
            await self.write(collection, [passage for passage in page if passage.live])
            await self.remove(collection, [passage for passage in page if not passage.live])

    async def _retry(self, collection: KnownCollection, parked: Sequence[Parked]) -> int:
        well = 0
        for one in parked:
            passages = await self.ledger.embeddable(None, one.passage_key - 1, 1)
            found = [passage for passage in passages if passage.passage_key == one.passage_key]
            if not await self.write(collection, found):
                await self.ledger.unpark(collection.name, [one.passage_key])  # it may be stale by now
                well += 1
        return well

    async def _vectors(
        self, collection: KnownCollection, passages: Sequence[Embeddable]
    ) -> Mapping[str, Float32Array]:
        """By text hash; passages that cannot be embedded are parked and absent."""
        vectors = dict(await self.ledger.cached(collection.fingerprint, [p.text_hash for p in passages]))
        self.counters.from_cache += len(vectors)
        missing: dict[str, list[Embeddable]] = {}
        for passage in passages:
            if passage.text_hash not in vectors:
                missing.setdefault(passage.text_hash, []).append(passage)
        texts = sorted((alike[0] for alike in missing.values()), key=lambda one: len(one.text))
        for part in _parts(texts, self.settings.batch):
            async for result in self._encoding.results(self._call(collection), part):
                if isinstance(result, Refusal):
                    await self._park(collection, missing[result.passage.text_hash], result.reason)
                    continue
                await self.ledger.cache(collection.fingerprint, result.vectors)
                self.counters.encoded += len(result.vectors)
                vectors.update(result.vectors)
        return vectors

    def _call(self, collection: KnownCollection) -> Call:
        """The encoder, the lease being held however long a batch takes."""
        lease = self._lease(collection)
        return lambda texts: lease.during(self.encoder.encode_passages(texts))

    async def _park(self, collection: KnownCollection, passages: Sequence[Embeddable], reason: str) -> None:
        for passage in passages:
            await self.ledger.park(collection.name, passage, reason)
        self.counters.parked += len(passages)

    def _lease(self, collection: KnownCollection) -> Lease:
        made = self._leases.get(collection.name)
        if made is None:
            made = Lease(self.ledger, lease_name(collection), self.owner, self.settings.lease_seconds)
            self._leases[collection.name] = made
        return made

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
        if windows is None or not len(windows):  # the model sees no token in some texts
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
