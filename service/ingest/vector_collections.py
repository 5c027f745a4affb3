"""Emptying and removing whole collections: only by whoever holds them, and before anything is touched."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.errors import Conflict, NotFound, Unavailable
from service.ingest.vectors import StepOutcome, VectorWorker, lease_name
from service.ports.embedding import CollectionRole, KnownCollection, VectorLedger
from service.ports.vectors import VectorIndex

DROP_S = 60.0
LEASE_S = 120.0  # longer than a drop may take


@asynccontextmanager
async def held(ledger: VectorLedger, collection: KnownCollection, owner: str) -> AsyncIterator[None]:
    """Nobody else writes the collection within the block. Raises Unavailable while another worker has it."""
    name = lease_name(collection)
    if not await ledger.lease(name, owner, LEASE_S):
        raise Unavailable(f"another worker has {collection.name}: stop it first; nothing was changed")
    try:
        yield
    finally:
        await ledger.release(name, owner)


async def caught_up(worker: VectorWorker) -> None:
    """Follow the log to its end. Raises Conflict, Unavailable with what stood in the way."""
    while (outcome := await worker.step()) is StepOutcome.WORKED:
        pass
    if outcome is StepOutcome.OTHER_MODEL:
        raise other_model()
    if outcome is StepOutcome.OTHER_WORKER:
        raise Unavailable("another worker follows the change log already")
    if outcome is not StepOutcome.IDLE:
        raise Unavailable(f"the model {worker.model} is not there: {worker.encoder.failure}")


async def own_collection(worker: VectorWorker) -> KnownCollection:
    """The one that the worker's model searches. Raises Conflict where another model's serves."""
    collection = await worker.collection()
    if collection is None:
        raise other_model()
    return collection


async def rebuild_collection(worker: VectorWorker) -> None:
    """Empty the collection of the worker's model and fill it again.

    Raises Conflict, Unavailable: then nothing was dropped, unless the worker was put out of work meanwhile.
    """
    collection = await own_collection(worker)
    async with held(worker.ledger, collection, worker.owner):
        await worker.index.drop(collection.name, time.monotonic() + DROP_S)
        await caught_up(worker)


async def drop_collection(ledger: VectorLedger, index: VectorIndex, name: str, owner: str) -> None:
    """Remove a collection that does not serve. Raises NotFound, Conflict, Unavailable, VectorStoreError."""
    chosen = next((one for one in await ledger.collections() if one.name == name), None)
    if chosen is None:
        raise NotFound(f"there is no collection {name}")
    if chosen.role is CollectionRole.ACTIVE:
        raise Conflict(f"{name} serves; migrate to another model first")
    async with held(ledger, chosen, owner):  # whoever follows it would make it anew
        await index.drop(chosen.name, time.monotonic() + DROP_S)
        await ledger.forget(chosen.name)


def other_model() -> Conflict:
    """What a command says that was told a model which does not serve."""
    return Conflict("another model's collection serves: citewell vectors migrate changes the model")
