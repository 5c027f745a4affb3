"""The embedded store when its files are deleted, damaged or have no room."""

import asyncio
import contextlib
import os
import resource
import shutil
import subprocess
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from service.adapters.vectors.qdrant_edge.index import EdgeVectorIndex
from service.adapters.vectors.qdrant_edge.settings import MEBIBYTE, EdgeSettings
from service.ports.vectors import (
    StoreReason,
    VectorStorageFull,
    VectorStoreError,
    VectorStoreTimeout,
    VectorStoreUnavailable,
)
from tests.vectors.parts import (
    COLLECTION,
    DIMENSION,
    OTHER,
    all_ids,
    filled,
    nearest,
    points_of,
    soon,
    unit_rows,
)
from tests.vectors.processes import (
    eventually,
    replaced,
    running,
    scribble,
    shard_folder,
    stopped,
    the_process,
)

pytestmark = pytest.mark.anyio

IN_USE = [
    "edge_config.json",
    "segments/*/segment.json",
    "segments/*/version.info",
    "segments/*/payload_storage/page_0.dat",
    "segments/*/mutable_id_tracker.mappings",
    "segments/*/vector_storage/vectors/status.dat",
    "segments/*/vector_storage/deleted/status.dat",
    "wal/first-index",
]


def settings_of(root: Path) -> EdgeSettings:
    """Short pauses, so that repeated crashes do not take long."""
    return EdgeSettings(root, backoff_seconds=(0.02, 0.1))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EdgeVectorIndex]:
    """A store in tmp_path."""
    opened = EdgeVectorIndex(settings_of(tmp_path))
    yield opened
    await opened.close()


async def usable_again(store: EdgeVectorIndex) -> None:
    """The collection can be filled and searched."""
    vectors = unit_rows(5)
    await eventually(lambda: store.upsert(COLLECTION, points_of(5), vectors, soon()))
    hits = await store.search(COLLECTION, nearest(vectors[3], 1), soon())
    assert hits[0].key == points_of(5)[3].key


@pytest.mark.parametrize("what", ["the root", "the collection", "the shard", "its segments"])
async def test_a_folder_deleted_while_running(store: EdgeVectorIndex, tmp_path: Path, what: str) -> None:
    """C27: the next call after a deletion is unavailable, never an answer out of deleted files; then the
    collection is empty, of another incarnation, and usable.
    """
    vectors = await filled(store, 50)
    before = await store.describe(COLLECTION, soon())
    places = {
        "the root": tmp_path,
        "the collection": tmp_path / COLLECTION,
        "the shard": shard_folder(tmp_path),
        "its segments": shard_folder(tmp_path) / "segments",
    }
    shutil.rmtree(places[what])

    with pytest.raises(VectorStoreUnavailable):
        await store.search(COLLECTION, nearest(vectors[0], 1), soon())
    with pytest.raises(VectorStoreUnavailable):
        await store.upsert(COLLECTION, points_of(1), vectors[:1], soon())

    after = await replaced(store, before)
    assert after.points == 0
    await usable_again(store)


@pytest.mark.parametrize("pattern", IN_USE)
async def test_a_file_damaged_while_closed(tmp_path: Path, pattern: str) -> None:
    """A file overwritten with noise: the collection is either set aside and reported empty under another
    incarnation, or served with every answer sound; it is never a crash loop.
    """
    first = EdgeVectorIndex(settings_of(tmp_path))
    vectors = await filled(first, 50)
    before = await first.describe(COLLECTION, soon())
    await first.close()
    damaged = shard_folder(tmp_path)
    for file in damaged.glob(pattern):
        scribble(file, seed=1)

    second = EdgeVectorIndex(settings_of(tmp_path))
    state = await eventually(lambda: second.ensure(COLLECTION, DIMENSION, soon()))

    if state.incarnation == before.incarnation:
        hits = await second.search(COLLECTION, nearest(vectors[0], 50), soon())
        assert {hit.key for hit in hits} <= {point.key for point in points_of(50)}
    else:
        assert state.points == 0
        assert (tmp_path / "aside" / COLLECTION / damaged.name).is_dir()
    await usable_again(second)
    await second.close()


async def test_most_damage_is_noticed_when_opening(tmp_path: Path) -> None:
    """Zeroed vectors and truncated bookkeeping open without an error in the engine; the samples show them."""
    for name in ("chunk_0.mmap", "status.dat"):
        first = EdgeVectorIndex(settings_of(tmp_path))
        await filled(first, 50)
        before = await first.describe(COLLECTION, soon())
        await first.close()
        (file,) = shard_folder(tmp_path).glob(f"segments/*/vector_storage/vectors/{name}")
        file.write_bytes(bytes(file.stat().st_size))

        second = EdgeVectorIndex(settings_of(tmp_path))
        after = await replaced(second, before)
        assert after.points == 0
        await second.close()


async def test_files_truncated_while_running(store: EdgeVectorIndex, tmp_path: Path) -> None:
    """Mapped files cut to nothing kill the process with a signal; after a few such crashes the collection
    is set aside, and the store goes on.
    """
    vectors = await filled(store, 2000, 64)
    before = await store.describe(COLLECTION, soon())
    for file in shard_folder(tmp_path).glob("segments/*/*/**/*.dat"):
        os.truncate(file, 0)
    for file in shard_folder(tmp_path).glob("segments/*/*/**/*.mmap"):
        os.truncate(file, 0)

    searches = [store.search(COLLECTION, nearest(vectors[number], 10), soon()) for number in range(100)]
    answers = await asyncio.gather(*searches, return_exceptions=True)
    assert {type(answer) for answer in answers if not isinstance(answer, tuple)} == {VectorStoreUnavailable}

    async def ask() -> None:
        state = await store.describe(COLLECTION, soon())
        if state.incarnation == before.incarnation:
            await store.search(COLLECTION, nearest(vectors[0], 10), soon())
            raise VectorStoreError("still the damaged one")

    await eventually(ask)
    assert (await store.describe(COLLECTION, soon())).points == 0


async def test_a_damaged_process_file_is_replaced_after_a_crash(
    store: EdgeVectorIndex, tmp_path: Path
) -> None:
    """Damage done while the process runs is found when it is next started, and set aside then."""
    await filled(store, 50)
    before = await store.describe(COLLECTION, soon())
    (file,) = shard_folder(tmp_path).glob("segments/*/segment.json")
    scribble(file, seed=2)
    the_process().kill()

    after = await replaced(store, before)

    assert after.points == 0
    assert (tmp_path / "aside" / COLLECTION).is_dir()
    await usable_again(store)


@pytest.mark.parametrize("content", [b"", b"{", b"null", b'{"dimension": "8"}'])
async def test_a_damaged_description_is_a_collection_to_be_made_anew(tmp_path: Path, content: bytes) -> None:
    """A meta.json that cannot be read counts as no collection; what it described is set aside."""
    first = EdgeVectorIndex(settings_of(tmp_path))
    await filled(first, 5)
    await first.close()
    (tmp_path / COLLECTION / "meta.json").write_bytes(content)

    second = EdgeVectorIndex(settings_of(tmp_path))
    state = await second.ensure(COLLECTION, DIMENSION, soon())

    assert state.points == 0
    assert list((tmp_path / "aside" / COLLECTION).glob("shard-*"))
    await second.close()


async def test_a_description_that_cannot_be_read_is_unavailable(tmp_path: Path) -> None:
    """C27: what the file system refuses is an error of the port, not of the operating system."""
    (tmp_path / COLLECTION / "meta.json").mkdir(parents=True)
    store = EdgeVectorIndex(settings_of(tmp_path))
    with pytest.raises(VectorStoreUnavailable):
        await store.count(COLLECTION, None, soon())
    with pytest.raises(VectorStoreUnavailable):
        await store.ensure(COLLECTION, DIMENSION, soon())
    await store.close()


async def test_a_drop_is_carried_through(store: EdgeVectorIndex, tmp_path: Path) -> None:
    """A caller whose deadline passes during a drop learns of the timeout, and the drop happens anyway."""
    await filled(store, 5)
    before = await store.describe(COLLECTION, soon())
    with stopped(the_process()), pytest.raises(VectorStoreTimeout):
        await store.drop(COLLECTION, soon(0.1))

    after = await store.ensure(COLLECTION, DIMENSION, soon())

    assert after.points == 0
    assert after.incarnation != before.incarnation
    assert len(running()) == 1


async def test_damage_to_one_collection_leaves_the_others_alone(
    store: EdgeVectorIndex, tmp_path: Path
) -> None:
    """E16: each collection has a process of its own, and the troubles of one are not another's."""
    vectors = await filled(store, 20)
    await store.ensure(OTHER, DIMENSION, soon())
    pids = {process.pid for process in running()}
    shutil.rmtree(tmp_path / OTHER)

    with pytest.raises(VectorStoreUnavailable):
        await store.count(OTHER, None, soon())

    assert len(await store.search(COLLECTION, nearest(vectors[0], 50), soon())) == 20
    await eventually(lambda: store.count(OTHER, None, soon()))
    assert len(pids & {process.pid for process in running()}) == 1


async def test_a_file_size_limit_is_a_full_store(store: EdgeVectorIndex) -> None:
    """An engine that may not extend its files fails the write as storage_full, and searching goes on."""
    vectors = await filled(store, 20, 384)
    process = the_process()
    process.rlimit(psutil.RLIMIT_FSIZE, (MEBIBYTE, resource.RLIM_INFINITY))
    failure: VectorStoreError | None = None
    for number in range(400):
        try:
            points = points_of(256, prefix=f"batch{number}")
            await store.upsert(COLLECTION, points, unit_rows(256, 384), soon())
        except VectorStoreError as error:
            failure = error
            break

    assert failure is not None
    assert failure.reason is StoreReason.ERROR
    assert len(await store.search(COLLECTION, nearest(vectors[0], 5), soon())) == 5


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 96 MiB; skips where mounting one is not allowed."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96m", "citewell-test", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def grow(disk: Path) -> None:
    """Make room."""
    subprocess.run(["mount", "-o", "remount,size=512m", str(disk)], check=True)


def leave_no_room(disk: Path) -> None:
    """Another program fills the disk, to the last byte."""
    with (disk / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while ballast.write(bytes(MEBIBYTE // 16)) == MEBIBYTE // 16:
            continue


async def write_until_full(store: EdgeVectorIndex) -> tuple[set[uuid.UUID], VectorStoreError]:
    """The acknowledged ids, and the error that ended it."""
    acknowledged: set[uuid.UUID] = set()
    await store.ensure(COLLECTION, 384, soon())
    for number in range(1000):
        points = points_of(100, prefix=f"batch{number}")
        try:
            await store.upsert(COLLECTION, points, unit_rows(100, 384), soon())
        except VectorStoreError as error:
            return acknowledged, error
        acknowledged.update(point.id for point in points)
    raise AssertionError("the disk was not small")


async def test_a_full_disk_refuses_writes_and_serves_on(small_disk: Path) -> None:
    """Below the reserve writes are storage_full (store_error), the process lives, searches answer; with
    room again writes go on and nothing acknowledged is lost.
    """
    store = EdgeVectorIndex(EdgeSettings(small_disk, reserve_bytes=32 * MEBIBYTE))
    acknowledged, error = await write_until_full(store)
    pid = the_process().pid

    assert isinstance(error, VectorStorageFull)
    assert error.reason is StoreReason.ERROR
    assert len(await store.search(COLLECTION, nearest(unit_rows(1, 384)[0], 10), soon())) == 10
    with pytest.raises(VectorStorageFull):
        await store.ensure(OTHER, DIMENSION, soon())
    assert the_process().pid == pid
    grow(small_disk)
    await store.upsert(COLLECTION, points_of(100), unit_rows(100, 384), soon())
    assert acknowledged <= await all_ids(store)
    await store.close()


async def test_a_disk_filled_by_somebody_else(small_disk: Path) -> None:
    """With no byte left, even a process that has to be restarted is reported as full, not set aside."""
    store = EdgeVectorIndex(EdgeSettings(small_disk, reserve_bytes=8 * MEBIBYTE, backoff_seconds=(0.02, 0.1)))
    await filled(store, 50)
    before = await store.describe(COLLECTION, soon())
    leave_no_room(small_disk)
    the_process().kill()

    with pytest.raises(VectorStoreError):
        await store.upsert(COLLECTION, points_of(1), unit_rows(1), soon())
    (small_disk / "ballast").unlink()
    after = await eventually(lambda: store.describe(COLLECTION, soon()))

    assert after == before
    await store.close()


async def test_crashes_on_a_full_disk_lose_nothing(small_disk: Path) -> None:
    """Without a reserve a write on a full disk may kill the engine; the collection is kept, and once
    there is room every acknowledged point is still there.
    """
    store = EdgeVectorIndex(EdgeSettings(small_disk, reserve_bytes=0, backoff_seconds=(0.02, 0.1)))
    acknowledged, _ = await write_until_full(store)
    before = await store.describe(COLLECTION, soon())
    leave_no_room(small_disk)
    for number in range(6):
        with contextlib.suppress(VectorStoreError):
            await store.delete(COLLECTION, [uuid.uuid4() for _ in range(4000)], soon(2))
        the_or_no_process = running()
        if number % 2 and the_or_no_process:
            the_or_no_process[0].kill()

    grow(small_disk)

    after = await eventually(lambda: store.describe(COLLECTION, soon()))
    assert after.incarnation == before.incarnation
    assert acknowledged <= await all_ids(store)
    await store.close()
