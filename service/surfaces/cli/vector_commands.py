"""`citewell vectors`: the vector index, its worker and its model."""

import click

from service.ingest.migration import Migration
from service.ingest.vector_status import VectorStatus
from service.ingest.vectors import WorkerCounters
from service.ports.embedding import KnownCollection
from service.ports.vector_reports import SeenWorker
from service.settings import read_settings
from service.surfaces.cli import vector_work
from service.surfaces.cli.options import json_option
from service.surfaces.cli.session import run
from service.surfaces.cli.terminal import counted, say, say_json, say_table, tell
from service.surfaces.wire import utc_text


@click.group()
def vectors() -> None:
    """Fill, check and change the vector index."""


@vectors.command()
@json_option
def status(*, as_json: bool) -> None:
    """Show the collections, and how far the index is behind the rows."""
    found, known = run(vector_work.status(read_settings()))
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
    say(
        f"{counted(found.points, 'point')}, {counted(found.pending, 'change')} pending, "
        f"{found.lag_seconds or 0.0:.1f} s behind, {found.parked} parked"
    )
    say(
        f"{counted(found.missing, 'passage')} missing, {counted(found.orphan, 'orphan point')}, "
        "beyond what pending changes explain"
    )
    if found.compared_at is not None:
        say(f"compared {utc_text(found.compared_at)} by {found.compared_by}")
    if found.workers:
        columns = ("worker", "model", "duty", "heard of", "last failure")
        say_table(columns, [_worker_row(one) for one in found.workers])
    if found.failure:
        tell(found.failure)
    if found.points is None and is_held_by_another(found):
        tell(
            "what is unknown here the process that holds the vectors tells: its page /status and its metrics; "
            "it compares rows and points every ten minutes"
        )


@vectors.command()
@json_option
def sync(*, as_json: bool) -> None:
    """Bring the index up to the newest change, then end."""
    counters = _counts(run(vector_work.sync(read_settings())))
    if as_json:
        say_json(counters)
    else:
        say(", ".join(f"{name} {count}" for name, count in counters.items()))


@vectors.command()
def worker() -> None:
    """Follow the change log until Ctrl-C. Several may run: one works, the others stand by."""
    run(vector_work.work(read_settings()))


@vectors.command()
@click.option("--check", is_flag=True, help="Report only; repair nothing.")
@json_option
def reconcile(*, check: bool, as_json: bool) -> None:
    """Compare rows and points by id, and repair what differs. With --check no model is needed."""
    work = vector_work.checked if check else vector_work.reconciled
    found = run(work(read_settings()))
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
    say(f"{counted(found.passages, 'passage')}, {counted(found.points, 'point')}: long passages have several")
    say(f"{verb}: {counted(found.missing, 'passage')} missing, {counted(found.orphans, 'orphan point')}")


@vectors.command()
def rebuild() -> None:
    """Empty the collection of this model and fill it again; unchanged texts come from the cache."""
    counters = _counts(run(vector_work.rebuilt(read_settings())))
    say(", ".join(f"{name} {count}" for name, count in counters.items()))


@vectors.command()
@click.option("--model", required=True, metavar="MODEL", help="Name or folder of the new model.")
@json_option
def migrate(*, model: str, as_json: bool) -> None:
    """Build the collection of another model while the first serves, check it, and switch."""
    done = run(vector_work.migrated(read_settings(), model))
    if as_json:
        say_json(_migration_out(done))
    elif not done.switched:
        say(f"{done.collection.name} serves already")
    else:
        say(
            f"{done.collection.name} serves now: {counted(done.passages, 'passage')}, "
            f"{counted(done.points, 'point')}, "
            f"recall@10 {done.recall or 0.0:.3f}. Set CITEWELL_EMBEDDING_MODEL={model}; drop the old one when "
            "nobody searches it any more."
        )
    if not done.is_pointed:
        tell("the alias could not be moved yet: the worker or citewell vectors reconcile does it")


@vectors.command()
@click.argument("collection")
def drop(collection: str) -> None:
    """Remove a collection that no longer serves."""
    run(vector_work.dropped(read_settings(), collection))
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
        "compared_by": found.compared_by,
        "workers": [
            {
                "place": one.place,
                "model": one.model,
                "duty": one.duty.value,
                "is_failing": one.is_failing,
                "is_lost": one.is_lost,
                "fault": None if one.fault is None else one.fault.value,
                "failure": one.failure,
                "failed_at": None if one.failed_at is None else utc_text(one.failed_at),
                "silent_seconds": one.silent_seconds,
            }
            for one in found.workers
        ],
        "fault": None if found.fault is None else found.fault.value,
        "reason": found.failure,
    }


def is_held_by_another(found: VectorStatus) -> bool:
    """Whether the store is well and another process's, as Qdrant Edge is that of a running service."""
    return found.failure is not None and "another process holds" in found.failure


def _worker_row(one: SeenWorker) -> tuple[str, str, str, str, str | None]:
    """A worker in a table: what failed last is told with its time, unless it goes on."""
    failure = one.failure
    if failure is not None and not one.is_failing and one.failed_at is not None:
        failure = f"{failure} (over; {utc_text(one.failed_at)})"
    heard = f"{one.silent_seconds:.0f} s ago{', lost' if one.is_lost else ''}"
    return one.place, one.model, one.duty.value, heard, failure


def _counts(done: WorkerCounters) -> dict[str, int]:
    return {
        "encoded": done.encoded,
        "from_cache": done.from_cache,
        "upserted": done.upserted,
        "deleted": done.deleted,
        "parked": done.parked,
    }


def _migration_out(done: Migration) -> dict[str, object]:
    return {
        "collection": done.collection.name,
        "switched": done.switched,
        "passages": done.passages,
        "points": done.points,
        "recall": done.recall,
    }
