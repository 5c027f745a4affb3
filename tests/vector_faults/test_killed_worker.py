"""The worker's process killed with -9 at named points and at random ones; a fresh process takes up the log.

One process a kill: it first recovers from the kill before, reports, then gets the order to be killed at.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.model import ItemId
from tests.vector_faults.driver import SOURCES
from tests.vector_faults.orders import Churn, HaltAt, House, Point, Report, Retire, Sight, Store, document
from tests.vector_faults.victims import FORKSERVER, Household, household

KILLS = 20  # at each kind of point
MOMENTS = 6


@pytest.fixture(scope="module", autouse=True)
def preloaded() -> Iterator[None]:
    """The processes start from one that has imported everything, unless other tests have started it."""
    FORKSERVER.set_forkserver_preload(["tests.faults.driver", "tests.vector_faults.driver"])
    return iter([None])


@pytest.fixture
def home_on(home: Path, database_url: str) -> Iterator[Household]:
    """A household on each kind of database."""
    with household(House(home, database_url)) as made:
        yield made


def assert_equal_to_the_rows(sight: Sight) -> None:
    """Every window of every live scorable passage has its point, nothing else has, and none counts twice."""
    assert sight.points == sight.owed
    assert sight.counted == len(sight.points)
    assert sight.pending == 0
    assert sight.vector == ("ran" if sight.live else "no_vectors")
    assert set(sight.answered) == sight.live  # C15: the vector arm fills the page with every live passage
    assert len(sight.answered) == len(sight.live)


def assert_recovered(report: Report) -> None:
    """What every recovery owes, whatever it came after."""
    assert set(report.found.answered) <= report.found.live  # C14: before anything was repaired
    assert report.found.live == report.caught_up.live
    assert_equal_to_the_rows(report.caught_up)
    assert report.encoded == report.caught_up.cached - report.found.cached  # no text is encoded twice
    assert report.parked == 0


def writes_of(seed: int, chance: random.Random, live: set[ItemId]) -> tuple[Store | Retire, ...]:
    """A new source, a new version of a source, or a retirement; `live` is kept up to date."""
    version = seed + 1
    retired = sorted(live)[chance.randrange(len(live))] if len(live) > 2 else None
    if seed % 3 == 2 and retired is not None:
        live.discard(retired)
        return (Retire(retired),)
    source = seed % SOURCES if seed % 3 == 0 else chance.randrange(SOURCES)
    one = document(source, version, passages=1 + chance.randrange(6))
    superseded = {item for item in live if item.startswith(f"s{source}v")}
    live.difference_update(superseded)
    live.add(ItemId(f"s{source}v{version}"))
    return (Store(one),)


def halted_and_recovered(home: Household, order: HaltAt) -> Report:
    """Kill the process at the point, and let the next one recover."""
    home.order(order)
    home.kill()
    report = home.recovered()
    assert report.found.pending > 0
    assert report.encoded == 0  # the cache had every vector before the store was told
    assert_recovered(report)
    return report


def items_of(sight: Sight) -> set[str]:
    """The live items."""
    return {item_id for item_id, _ in sight.live}


def test_killed_between_commit_and_upsert(home_on: Household) -> None:
    """C24: killed after SQL has committed and before the store was told, the next process makes it up."""
    live: set[ItemId] = set()
    report = home_on.recovered()
    for seed in range(KILLS):
        before = report.caught_up
        writes = writes_of(seed, random.Random(seed), live)  # noqa: S311 - what to write, not a secret
        point = Point.BEFORE_DELETE if isinstance(writes[0], Retire) else Point.BEFORE_UPSERT
        report = halted_and_recovered(home_on, HaltAt(writes, point))
        assert report.found.points == before.points  # nothing was done, and nothing done was lost
        assert items_of(report.caught_up) == live
    home_on.leave()


def test_killed_between_upsert_and_progress(home_on: Household) -> None:
    """C24: killed after the store has acknowledged and before progress is recorded, all of it is done again
    and nothing comes of that.
    """
    live: set[ItemId] = set()
    report = home_on.recovered()
    for seed in range(KILLS):
        writes = writes_of(seed, random.Random(seed), live)  # noqa: S311 - what to write, not a secret
        report = halted_and_recovered(home_on, HaltAt(writes, Point.BEFORE_PROGRESS))
        assert report.found.points == report.found.owed  # what was acknowledged has survived the kill
        assert items_of(report.caught_up) == live
    home_on.leave()


def test_killed_between_the_new_version_and_the_old(home_on: Household) -> None:
    """C16: while the store holds the points of both versions, only the new version's passages are shown."""
    report = home_on.recovered()
    for version in range(1, 4):
        first, second = (Store(document(3, 2 * version + n, passages=5 - version)) for n in (0, 1))
        report = halted_and_recovered(home_on, HaltAt((first, second), Point.BEFORE_DELETE))
        assert report.found.points > report.found.owed or version == 1
        assert items_of(report.found) == {second.capture.item_id}
        assert items_of(report.caught_up) == {second.capture.item_id}
    home_on.leave()


def test_killed_at_any_moment(home_on: Household) -> None:
    """C24: killed at random while captures and retirements go on, or while the next process catches up."""
    home_on.recovered()
    for seed in range(MOMENTS):
        chance = random.Random(1_000 + seed)  # noqa: S311 - when, not a secret
        home_on.order(Churn(seed))
        time.sleep(chance.uniform(0.0, 0.5))
        home_on.kill()
        if seed % 3 == 2:
            home_on.start()
            time.sleep(chance.uniform(0.0, 0.5))
            home_on.kill()
        assert_recovered(home_on.recovered())
    home_on.leave()
