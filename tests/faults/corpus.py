"""A corpus that every fault is tried on, and the question whether the answers are still exact."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from service.bootstrap import Application, application
from service.model import (
    DEFAULT_WORKSPACE,
    Capture,
    Factor,
    ItemId,
    Option,
    SelectionContext,
    System,
    Vocabulary,
)
from service.search.request import Answer, ByQuery, BySelection, BySystem, RetrieveOptions, Subject
from service.settings import Settings
from tests.builders import capture
from tests.central.machine import shown
from tests.central.model import Corpus, Hit

VOCABULARY = Vocabulary(
    systems=(System("sl45", "Sill"),), factors=(Factor("f", "Door"),), options=(Option("o", "f", "w3"),)
)
SUBJECTS: tuple[Subject, ...] = (
    ByQuery("sill door w3"),
    ByQuery("NW-SL45/2"),
    ByQuery("成语接龙"),
    BySystem("sl45"),
    BySelection(SelectionContext(("o",))),
)
SOURCES = 20
LIMIT = 200


def document(number: int) -> Capture:
    """The capture of one of a few sources; every third heading and title is hit too."""
    texts = [
        f"sill {number} w{k} "
        + "door " * ((k + number) % 4)
        + ("NW-SL45/2 成语接龙" if k == number % 8 else "")
        for k in range(8)
    ]
    return capture(
        f"source{number % SOURCES}",
        *texts,
        title="Sill" if number % 3 else "A document",
        heading="door w3" if number % 5 == 0 else None,
        item_id=f"item{number:04}",
    )


async def fill(app: Application, corpus: Corpus, numbers: range) -> None:
    """Store documents; of the earlier ones of a source nothing remains live."""
    for number in numbers:
        one = document(number)
        await app.capturing.capture(DEFAULT_WORKSPACE, one)
        corpus.store(one, ItemId(f"item{number:04}"))


async def ask(app: Application, subject: Subject, limit: int = LIMIT) -> Answer:
    """One page of a subject."""
    return await app.retriever.retrieve(subject, RetrieveOptions(DEFAULT_WORKSPACE, limit=limit))


async def assert_exact(app: Application, corpus: Corpus) -> None:
    """Every subject's answer is the pure function's, on a short and on a long page."""
    for subject in SUBJECTS:
        expected = corpus.answer(subject, None)
        for limit in (3, LIMIT):
            assert shown(await ask(app, subject, limit)) == expected[:limit]


def assert_nothing_wrong(got: list[Hit], expected: list[Hit]) -> None:
    """What is shown is live, has its exact score and stands in its order, even where something is missing."""
    assert got == [hit for hit in expected if hit in set(got)]


def settings_in(folder: Path, database_url: str = "", **more: float) -> Settings:
    """Settings of an application at home in a folder, whose index removes at once what is stale."""
    values: dict[str, float] = {"index_grace": 0.0, "index_checkpoint_every": 0.001, "index_patience": 20.0}
    return Settings.model_validate({"data_dir": folder, "database_url": database_url, **values, **more})


async def upkeep(app: Application) -> None:
    """What the index does from time to time, now."""
    for shard in app.lexical._shards.values():
        await shard.maintain()


def rebuilds(app: Application) -> int:
    """How often this process built the index from the rows."""
    return app.lexical.status()[DEFAULT_WORKSPACE].rebuilds


def generation(folder: Path) -> Path:
    """The index folder in use below an application's data folder."""
    (found,) = sorted((folder / "lexical").glob("slot-*/*/g*"))
    return found


def copy_of(home: Path, target: Path) -> Path:
    """A copy of a data folder, as a kill or a backup of this moment would leave it."""
    shutil.copytree(home, target, copy_function=_copy)
    return target


def _copy(source: str, target: str) -> None:
    try:
        shutil.copyfile(source, target)
    except FileNotFoundError:  # merged away while the folder was being copied
        return


@dataclass(frozen=True, slots=True)
class Filled:
    """A data folder with a finished index: several segments, deleted documents, a checkpoint."""

    home: Path
    corpus: Corpus


async def filled(home: Path) -> Filled:
    """Fill a data folder and leave it in order."""
    corpus = Corpus()
    async with application(settings_in(home)) as app:
        await fill(app, corpus, range(30))
        await upkeep(app)
        await fill(app, corpus, range(30, 33))
    return Filled(home, corpus)
