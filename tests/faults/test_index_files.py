"""Index files altered, cut, removed or exchanged, while nobody uses them and while somebody does."""

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from service.adapters.lexical import folder as index_folder
from service.adapters.lexical.checksums import all_intact
from service.bootstrap import application
from service.errors import LexicalIndexUnavailable
from service.model import DEFAULT_WORKSPACE
from service.ports.lexical import CandidateSource
from tests.central.machine import shown
from tests.central.model import Corpus
from tests.faults.corpus import (
    SUBJECTS,
    Filled,
    ask,
    assert_exact,
    assert_nothing_wrong,
    copy_of,
    fill,
    filled,
    generation,
    rebuilds,
    settings_in,
    upkeep,
)

pytestmark = pytest.mark.anyio

CHECKED = (".idx", ".term", ".pos", ".fieldnorm", ".fast", ".store", ".del", "checkpoint")
OTHERS = ("meta.json", ".managed.json")


def files_of(home: Path, suffix: str) -> list[Path]:
    """The index's files of a kind, all not empty."""
    found = sorted(path for path in generation(home).glob(f"*{suffix}") if path.stat().st_size)
    assert found, suffix
    return found


def flip(path: Path, chance: random.Random) -> None:
    """Change one bit of a file, in place."""
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    with path.open("r+b") as file:
        file.write(content)


async def test_an_index_that_was_not_harmed_is_not_built_again(template: Filled, home: Path) -> None:
    """C12: a start on an intact index reads it and answers as before."""
    copy_of(template.home, home)
    for _ in range(2):
        async with application(settings_in(home)) as app:
            await assert_exact(app, template.corpus)
            assert rebuilds(app) == 0


async def test_stale_passages_leave_the_index(home: Path) -> None:
    """C14: after the grace period the index holds the live passages alone."""
    corpus = Corpus()
    async with application(settings_in(home)) as app:
        await fill(app, corpus, range(30))
        assert app.lexical.status()[DEFAULT_WORKSPACE].documents == 30 * 8
        await upkeep(app)
        assert app.lexical.status()[DEFAULT_WORKSPACE].documents == 20 * 8
        await assert_exact(app, corpus)


async def test_a_bit_flipped_while_stopped_shows_at_the_start(template: Filled, home: Path) -> None:
    """C14: an index with an altered file is not trusted; the answers come from the rows, exactly."""
    for seed, suffix in enumerate([*CHECKED, *CHECKED]):
        chance = random.Random(seed)  # noqa: S311 - which bit, not a secret
        altered = copy_of(template.home, home / f"{seed}")
        flip(chance.choice(files_of(altered, suffix)), chance)
        async with application(settings_in(altered)) as app:
            await assert_exact(app, template.corpus)
            assert rebuilds(app) == 1, suffix


@pytest.mark.parametrize("suffix", OTHERS)
async def test_a_bit_flipped_in_what_has_no_checksum(template: Filled, home: Path, suffix: str) -> None:
    """C14: tantivy's own lists have no checksum; whatever they say, the answers are exact."""
    for seed in range(8):
        altered = copy_of(template.home, home / f"{seed}")
        flip(files_of(altered, suffix)[0], random.Random(seed))  # noqa: S311
        async with application(settings_in(altered)) as app:
            await assert_exact(app, template.corpus)


@pytest.mark.parametrize("suffix", [*CHECKED, *OTHERS])
async def test_files_cut_short_or_gone(template: Filled, home: Path, suffix: str) -> None:
    """C14: an index with a file cut short or missing answers exactly, from the rows if need be."""
    for name in ("cut", "gone"):
        altered = copy_of(template.home, home / name)
        path = files_of(altered, suffix)[-1]
        if name == "cut":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        else:
            path.unlink()
        async with application(settings_in(altered)) as app:
            await assert_exact(app, template.corpus)


async def test_files_younger_than_the_checkpoint_are_checked(home: Path, tmp_path: Path) -> None:
    """C14: what was written between the last checkpoint and a crash is not trusted unseen."""
    corpus = Corpus()
    async with application(settings_in(home)) as app:
        await fill(app, corpus, range(3))
        await upkeep(app)
        before = set(generation(home).iterdir())
        await fill(app, corpus, range(3, 5))
        crashed = copy_of(home, tmp_path / "crashed")
    young = [path for path in files_of(crashed, ".idx") if generation(home) / path.name not in before]
    for number, path in enumerate(young):
        altered = copy_of(crashed, tmp_path / f"{number}")
        flip(generation(altered) / path.name, random.Random(number))  # noqa: S311
        async with application(settings_in(altered)) as app:
            await assert_exact(app, corpus)
            assert rebuilds(app) == 1
    async with application(settings_in(crashed)) as app:
        await assert_exact(app, corpus)
        assert rebuilds(app) == 0


ALTERED = [
    *(("flipped", suffix) for suffix in (*CHECKED, *OTHERS)),
    *(
        (how, suffix)
        for how in ("zeros", "ones")
        for suffix in (".idx", ".term", ".fast", ".del", ".fieldnorm")
    ),
]


@pytest.mark.parametrize(("how", "suffix"), ALTERED)
async def test_files_altered_while_they_are_read(template: Filled, home: Path, suffix: str, how: str) -> None:
    """C14: with a file altered under the running process nothing stale or misplaced is shown, and it is found."""
    copy_of(template.home, home)
    corpus = template.corpus
    async with application(settings_in(home)) as app:
        for path in files_of(home, suffix):
            if how == "flipped":
                flip(path, random.Random(suffix))  # noqa: S311
            else:
                with path.open("r+b") as file:
                    file.write((b"\0" if how == "zeros" else b"\xff") * path.stat().st_size)
        for subject in SUBJECTS:
            answer = await ask(app, subject)
            assert_nothing_wrong(shown(answer), corpus.answer(subject, None))
        for shard in app.lexical._shards.values():
            shard._checked_at = float("-inf")  # ten minutes later
        await upkeep(app)
        if suffix not in OTHERS:
            await assert_exact(app, corpus)
        await app.lexical.rebuild(DEFAULT_WORKSPACE)
        await assert_exact(app, corpus)
        assert all_intact(generation(home))


async def test_many_find_the_same_damage(template: Filled, home: Path) -> None:
    """Searches that fail together cost one index, not the one that was built in its place."""
    copy_of(template.home, home)
    async with application(settings_in(home)) as app:
        for path in files_of(home, ".fast"):
            with path.open("r+b") as file:
                file.write(b"\xff" * path.stat().st_size)
        answers = await asyncio.gather(*(ask(app, subject) for subject in SUBJECTS * 4))
        for subject, answer in zip(SUBJECTS * 4, answers, strict=True):
            assert shown(answer) == template.corpus.answer(subject, None)[:200]
        await app.lexical.catch_up(DEFAULT_WORKSPACE)
        assert rebuilds(app) == 1
        assert (await ask(app, SUBJECTS[0])).lexical.source == CandidateSource.INDEX


async def test_the_index_folder_deleted_while_running(template: Filled, home: Path) -> None:
    """C14: without its folder the index is built again at the next write; answers stay exact throughout."""
    copy_of(template.home, home)
    corpus = template.corpus.copy()
    async with application(settings_in(home)) as app:
        shutil.rmtree(home / "lexical")
        await assert_exact(app, corpus)
        await fill(app, corpus, range(40, 42))
        await assert_exact(app, corpus)
        await upkeep(app)
        await fill(app, corpus, range(42, 44))
        await assert_exact(app, corpus)
        async with application(settings_in(home)) as other:
            await assert_exact(other, corpus)
            await fill(other, corpus, range(44, 46))
            await assert_exact(app, corpus)
            assert sorted(path.name for path in (home / "lexical").iterdir()) == ["slot-0", "slot-1"]
    async with application(settings_in(home)) as app:
        await assert_exact(app, corpus)


async def test_above_the_bound_a_lost_index_is_said_to_be_lost(template: Filled, home: Path) -> None:
    """C14: a corpus too large to be read row by row answers 503 while it has no index, never wrongly."""
    copy_of(template.home, home)
    async with application(settings_in(home, scan_bound=10, index_patience=0.5)) as app:
        shutil.rmtree(home / "lexical")
        (home / "lexical").write_text("in the way")
        await app.lexical.rebuild(DEFAULT_WORKSPACE)
        await upkeep(app)
        await assert_exact(app, template.corpus)  # the old index serves on
        for shard in app.lexical._shards.values():
            assert shard._current is not None
            await shard.damaged(shard._current, "a test")
        with pytest.raises(LexicalIndexUnavailable):
            await ask(app, SUBJECTS[0])
        (home / "lexical").unlink()
        for shard in app.lexical._shards.values():
            shard._retry_at = 0.0  # some seconds later
        await assert_exact(app, template.corpus)


async def test_an_index_of_another_database(template: Filled, home: Path) -> None:
    """C14: an index folder that belongs to another database is not used."""
    corpus = Corpus()
    async with application(settings_in(home)) as app:
        await fill(app, corpus, range(100, 110))
    shutil.rmtree(home / "lexical")
    shutil.copytree(template.home / "lexical", home / "lexical")
    async with application(settings_in(home)) as app:
        await assert_exact(app, corpus)
        assert rebuilds(app) == 1


async def test_an_index_newer_than_the_database(home: Path, tmp_path: Path) -> None:
    """C14: after a database was restored from a backup, the index that knows more is not used."""
    corpus = Corpus()
    async with application(settings_in(home)) as app:
        await fill(app, corpus, range(10))
    backup = copy_of(home, tmp_path / "backup")
    async with application(settings_in(home)) as app:
        await fill(app, corpus.copy(), range(10, 20))
    shutil.rmtree(backup / "lexical")
    shutil.copytree(home / "lexical", backup / "lexical")
    async with application(settings_in(backup)) as app:
        await assert_exact(app, corpus)
        assert rebuilds(app) == 1


async def test_an_index_of_another_version(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C12: an index written under other rules is built anew."""
    with monkeypatch.context() as older:
        older.setattr(index_folder, "VERSION", "0.0")
        written = await filled(home)
    async with application(settings_in(home)) as app:
        await assert_exact(app, written.corpus)
        assert rebuilds(app) == 1
