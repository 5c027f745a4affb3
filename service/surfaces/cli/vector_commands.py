"""`citewell vectors`: the vector index, its worker and its model."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from service.bootstrap import open_store
from service.errors import Conflict, NotFound, Unavailable
from service.ingest.migration import migrate as migrate_to
from service.ingest.reconcile import Comparison, Reconciliation, compare
from service.ingest.reconcile import reconcile as reconciled
from service.ingest.vector_runner import VectorRunner, VectorStatus, active_collection, vector_status
from service.ingest.vectors import StepOutcome, VectorWorker
from service.ports.embedding import CollectionRole, EncoderState, KnownCollection
from service.ports.vectors import VectorStoreError
from service.settings import Settings, VectorMode, read_settings
from service.surfaces.cli.options import json_option
from service.surfaces.cli.session import run
from service.surfaces.cli.terminal import say, say_json, say_table, tell
from service.surfaces.wire import utc_text
from service.vector_parts import log_difference, open_encoder, open_index, open_ledger

MODEL_PATIENCE_S = 600.0  # a first load may fetch the model
POLL_S = 0.1


@click.group()
def vectors() -> None:
    """Fill, check and change the vector index."""


@vectors.command()
@json_option
def status(*, as_json: bool) -> None:
    """Show the collections, and how far the index is behind the rows."""
    found, known = run(_status(read_settings()))
    if as_json:
        say_json(status_out(found, known))
        return
    if not known:
        say("there are no vectors yet: run citewell vectors sync, or serve with CITEWELL_VECTORS=on")
        return
    say_table(
        ("collection", "role", "model", "dimension"),
        [(one.name, one.role.value, one.model, str(one.dimension)) for one in known],
    )
    points = "unknown" if found.points is None else str(found.points)
    say(
        f"{points} points, {found.pending} changes pending, "
        f"{found.lag_seconds or 0.0:.1f} s behind, {found.parked} parked"
    )
    missing, orphan = ("unknown" if count is None else str(count) for count in (found.missing, found.orphan))
    say(f"{missing} passages missing, {orphan} orphan points, beyond what pending changes explain")
    if found.failure:
        tell(found.failure)


@vectors.command()
@json_option
def sync(*, as_json: bool) -> None:
    """Bring the index up to the newest change, then end."""
    counters = run(_sync(read_settings()))
    if as_json:
        say_json(counters)
    else:
        say(", ".join(f"{name} {count}" for name, count in counters.items()))


@vectors.command()
def worker() -> None:
    """Follow the change log until Ctrl-C. Several may run: one works, the others stand by."""
    run(_work(read_settings()))


@vectors.command()
@click.option("--check", is_flag=True, help="Report only; repair nothing.")
@json_option
def reconcile(*, check: bool, as_json: bool) -> None:
    """Compare rows and points by id, and repair what differs."""
    found = run(_reconcile(read_settings(), repair=not check))
    if as_json:
        say_json(
            {
                "passages": found.passages,
                "points": found.points,
                "missing": found.missing,
                "orphans": found.orphans,
                "repaired": found.repaired,
            }
        )
        return
    verb = "repaired" if found.repaired else "found"
    say(f"{found.passages} passages, {found.points} points")
    say(f"{verb}: {found.missing} missing, {found.orphans} orphans")


@vectors.command()
def rebuild() -> None:
    """Empty the collection of this model and fill it again; unchanged texts come from the cache."""
    counters = run(_rebuild(read_settings()))
    say(", ".join(f"{name} {count}" for name, count in counters.items()))


@vectors.command()
@click.option("--model", required=True, metavar="MODEL", help="Name or folder of the new model.")
@json_option
def migrate(*, model: str, as_json: bool) -> None:
    """Build the collection of another model while the first serves, check it, and switch."""
    settings = read_settings()
    done = run(_migrate(settings, model))
    if as_json:
        say_json(done)
        return
    if not done["switched"]:
        say(f"{done['collection']} serves already")
        return
    say(
        f"{done['collection']} serves now: {done['passages']} passages, {done['points']} points, "
        f"recall@10 {done['recall']:.3f}. Set CITEWELL_EMBEDDING_MODEL={model}; drop the old one when nobody "
        "searches it any more."
    )


@vectors.command()
@click.argument("collection")
def drop(collection: str) -> None:
    """Remove a collection that no longer serves."""
    run(_drop(read_settings(), collection))
    say(f"dropped {collection}")


def status_out(found: VectorStatus, known: list[KnownCollection]) -> dict[str, object]:
    """The status as JSON."""
    return {
        "collections": [
            {"name": one.name, "role": one.role.value, "model": one.model, "dimension": one.dimension}
            for one in known
        ],
        "points": found.points,
        "pending": found.pending,
        "lag_seconds": found.lag_seconds,
        "parked": found.parked,
        "missing": found.missing,
        "orphan": found.orphan,
        "compared_at": None if found.compared_at is None else utc_text(found.compared_at),
        "reason": found.failure,
    }


@asynccontextmanager
async def _worker(settings: Settings, model: str) -> AsyncIterator[VectorWorker]:
    """A worker whose model is not loaded yet. Raises ConfigurationError."""
    async with open_store(settings) as store:
        index = open_index(settings)
        service, encoder = open_encoder(settings, model)
        working = VectorWorker(open_ledger(settings, store.engines), index, encoder, model)
        service.start()
        try:
            yield working
        finally:
            await working.release()
            await service.close()
            await index.close()


async def _ready(working: VectorWorker) -> None:
    """Wait for the model. Raises Unavailable with the reason when it cannot be had."""
    until = time.monotonic() + MODEL_PATIENCE_S
    while working.encoder.state is not EncoderState.READY:
        if working.encoder.state is EncoderState.FAILED or time.monotonic() > until:
            raise Unavailable(f"the model {working.model} cannot be loaded: {working.encoder.failure}")
        await asyncio.sleep(POLL_S)


async def _status(settings: Settings) -> tuple[VectorStatus, list[KnownCollection]]:
    without = settings.model_copy(update={"vectors": VectorMode.READ})
    async with open_store(settings) as store:
        index = open_index(without)
        service, encoder = open_encoder(without, settings.embedding_model)
        try:
            ledger = open_ledger(without, store.engines)
            working = VectorWorker(ledger, index, encoder, settings.embedding_model)
            return await vector_status(working, None, await _compared(working)), list(
                await ledger.collections()
            )
        finally:
            await service.close()
            await index.close()


async def _compared(working: VectorWorker) -> Comparison | None:
    """Rows and points of the collection that serves, compared now; None where the index does not answer."""
    collection = active_collection(await working.ledger.collections())
    try:
        return None if collection is None else await compare(working, collection)
    except VectorStoreError:
        return None


async def _sync(settings: Settings) -> dict[str, int]:
    async with _worker(settings, settings.embedding_model) as working:
        await _ready(working)
        outcome = await VectorRunner(working).until_idle()
        if outcome is StepOutcome.OTHER_MODEL:
            raise Conflict("another model's collection serves: citewell vectors migrate changes the model")
        if outcome is StepOutcome.OTHER_WORKER:
            raise Unavailable("another worker follows the change log already")
        return _counts(working)


async def _work(settings: Settings) -> None:
    async with _worker(settings, settings.embedding_model) as working:
        runner = VectorRunner(working, tell=log_difference)
        loop = asyncio.get_running_loop()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, runner.stop)
        tell("following the change log (Ctrl-C stops)")
        await runner.run()


async def _reconcile(settings: Settings, *, repair: bool) -> Reconciliation:
    async with _worker(settings, settings.embedding_model) as working:
        await _ready(working)
        return await reconciled(working, await _own(working), repair=repair)


async def _rebuild(settings: Settings) -> dict[str, int]:
    async with _worker(settings, settings.embedding_model) as working:
        await _ready(working)
        await working.index.drop((await _own(working)).name, time.monotonic() + 60.0)
        await VectorRunner(working).until_idle()
        return _counts(working)


async def _migrate(settings: Settings, model: str) -> dict[str, object]:
    async with _worker(settings, model) as working:
        await _ready(working)
        done = await migrate_to(working)
        return {
            "collection": done.collection.name,
            "switched": done.switched,
            "passages": done.passages,
            "points": done.points,
            "recall": done.recall,
        }


async def _drop(settings: Settings, name: str) -> None:
    async with open_store(settings) as store:
        ledger = open_ledger(settings, store.engines)
        known = {one.name: one for one in await ledger.collections()}
        chosen = next((one for one in known.values() if one.name == name), None)
        if chosen is None:
            raise NotFound(f"there is no collection {name}")
        if chosen.role is CollectionRole.ACTIVE:
            raise Conflict(f"{name} serves; migrate to another model first")
        index = open_index(settings)
        try:
            await index.drop(chosen.name, time.monotonic() + 60.0)
        finally:
            await index.close()
        await ledger.forget(chosen.name)


async def _own(working: VectorWorker) -> KnownCollection:
    collection = await working.collection()
    if collection is None:
        raise Conflict("another model's collection serves: citewell vectors migrate changes the model")
    return collection


def _counts(working: VectorWorker) -> dict[str, int]:
    done = working.counters
    return {
        "encoded": done.encoded,
        "from_cache": done.from_cache,
        "upserted": done.upserted,
        "deleted": done.deleted,
        "parked": done.parked,
    }
