"""`citewell vectors`, over Qdrant Edge in the data directory and hashed words for models."""

import asyncio
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from embeddings.encoder import Encoder
from embeddings.encoder_settings import EncoderSettings
from embeddings.errors import UnsuitableModel
from service.adapters.flags.settings import PROMPT
from service.adapters.sql.engine import database_url, open_engines
from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.sql.rollout import SqlFlagLedger
from service.bootstrap import application, open_store
from service.ingest.vectors import lease_name
from service.model import DEFAULT_WORKSPACE, ItemId, Workspace
from service.ports.embedding import CollectionRole, KnownCollection
from service.ports.flag import FlagRows
from service.ports.vectors import PointKey, collection_name, point_id
from service.settings import Settings
from service.vector_parts import open_index
from tests.builders import capture, store
from tests.cli.commands import CommandLine, Json
from tests.cli.words_program import load_words
from tests.embeddings.hash_encoder import HashEncoder, hash_fingerprint

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0
CONFLICT, UNAVAILABLE, NOT_FOUND = 4, 5, 3
WRITING = (("sync",), ("rebuild",), ("reconcile",))


@pytest.fixture
def words(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line over three documents that have no vectors yet."""
    monkeypatch.setattr("embeddings.encoder_service.load_encoder", load_words)
    add(cli, "sill", "door", "glass")
    return CommandLine(cli.data_dir, {"CITEWELL_EMBEDDING_MODEL": "one"})


def add(cli: CommandLine, *texts: str) -> None:
    """Store a document a text."""

    async def stored() -> None:
        async with application(Settings(data_dir=cli.data_dir)) as app:
            await store(app, *(capture(text, text, item_id=text) for text in texts))

    asyncio.run(stored())


async def _ledger(cli: CommandLine, lease: str | None) -> tuple[list[KnownCollection], int | None]:
    settings = Settings(data_dir=cli.data_dir)
    async with open_store(settings) as opened:
        ledger = SqlVectorLedger(opened.engines, "float32")
        known = list(await ledger.collections())
        if lease is not None:
            assert await ledger.lease(lease, "another", 600.0)
        followed = [await ledger.progress(one.name) for one in known]
        head = await ledger.head()
    done = max((one.seq for one in followed if one is not None), default=None)
    return known, None if done is None else head - done


def collections(cli: CommandLine) -> list[KnownCollection]:
    """As SQL knows them."""
    return asyncio.run(_ledger(cli, None))[0]


def pending(cli: CommandLine) -> int | None:
    """How many changes the best collection lacks, by SQL alone; None before there is one."""
    return asyncio.run(_ledger(cli, None))[1]


def points(cli: CommandLine) -> int:
    """In the collection that serves."""
    found = cli.json("vectors", "status")["points"]
    assert isinstance(found, int)
    return found


def lose(cli: CommandLine, text: str) -> None:
    """Remove a document's point behind everybody's back."""

    async def lost() -> None:
        (collection,) = collections_
        index = open_index(Settings(data_dir=cli.data_dir))
        doomed = point_id(DEFAULT_WORKSPACE, PointKey(ItemId(text), 0))
        await index.delete(collection.name, [doomed], time.monotonic() + 30)
        await index.close()

    collections_ = collections(cli)
    asyncio.run(lost())


@contextmanager
def another_worker(cli: CommandLine, collection: KnownCollection) -> Iterator[None]:
    """Somebody else has the right to write the collection."""
    name = lease_name(collection)
    asyncio.run(_ledger(cli, name))
    yield

    async def ended() -> None:
        engines = open_engines(database_url(Settings(data_dir=cli.data_dir).resolved_database_url))
        await SqlVectorLedger(engines, "float32").release(name, "another")
        await engines.close()

    asyncio.run(ended())


def test_sync(words: CommandLine) -> None:
    """C24: sync embeds what is new and ends; the same again finds nothing to do."""
    assert words.json("vectors", "sync") == {
        "encoded": 3,
        "from_cache": 0,
        "upserted": 3,
        "deleted": 0,
        "parked": 0,
    }
    assert words.ok("vectors", "sync") == "encoded 0, from_cache 0, upserted 0, deleted 0, parked 0\n"
    assert points(words) == 3


def test_rebuild(words: CommandLine) -> None:
    """C24: rebuild fills the collection anew from the cache; no text is encoded twice."""
    words.ok("vectors", "sync")
    lose(words, "door")
    assert points(words) == 2
    assert words.ok("vectors", "rebuild") == "encoded 0, from_cache 3, upserted 3, deleted 0, parked 0\n"
    assert points(words) == 3


def test_reconcile(words: CommandLine) -> None:
    """C24: --check tells true numbers and changes nothing; without it what is missing comes back."""
    words.ok("vectors", "sync")
    lose(words, "door")
    for _ in range(2):
        assert words.json("vectors", "reconcile", "--check") == {
            "passages": 3,
            "points": 2,
            "missing": 1,
            "orphans": 0,
            "repaired": False,
        }
    assert "repaired: 1 passage missing, 0 orphan points" in words.ok("vectors", "reconcile")
    assert words.json("vectors", "reconcile", "--check")["missing"] == 0
    assert "3 passages, 3 points: long passages have several" in words.ok("vectors", "reconcile", "--check")


def test_a_check_needs_no_model(words: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """C24: --check compares what serves, whether or not its model can be had; without vectors it says so."""
    assert "no vectors yet" in words.fails(NOT_FOUND, "not_found", "vectors", "reconcile", "--check")
    words.ok("vectors", "sync")
    lose(words, "door")

    def loaded(_: object) -> None:
        raise AssertionError("nobody needs the model")

    monkeypatch.setattr("embeddings.encoder_service.load_encoder", loaded)
    assert words.json("vectors", "reconcile", "--check")["missing"] == 1


@pytest.mark.parametrize("command", [("sync",), ("reconcile",), ("reconcile", "--check")])
def test_a_store_that_is_not_there(words: CommandLine, command: tuple[str, ...]) -> None:
    """U22: a vector store that is down, or another process's, is what may succeed later, and no wrong command."""
    words.ok("vectors", "sync")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    down = {**words.environment, "CITEWELL_QDRANT_URL": f"http://127.0.0.1:{port}"}
    CommandLine(words.data_dir, down).fails(UNAVAILABLE, "vector_store_unavailable", "vectors", *command)
    with held_store(words):
        line = words.fails(UNAVAILABLE, "vector_store_unavailable", "vectors", *command)
        assert "another process" in line


def test_status_beside_the_process_that_holds_the_store(words: CommandLine) -> None:
    """U19: what cannot be known beside a running service is told with where it can be read."""
    words.ok("vectors", "sync")
    with held_store(words):
        result = words.run("vectors", "status")
    assert result.exit_code == 0
    assert "unknown points, 0 changes pending" in result.stdout
    assert "/status" in result.stderr


@contextmanager
def held_store(cli: CommandLine) -> Iterator[None]:
    """Somebody else has the folder of the vectors, as a running service has."""
    with (cli.data_dir / "vectors" / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def on_for_all(words: CommandLine) -> CommandLine:
    """The same command line with vectors and the flag on."""
    words.ok("flag", "set", "on", "--force", "--reason", "a test")
    return CommandLine(words.data_dir, {**words.environment, "CITEWELL_VECTORS": "on"})


def vector_arm(cli: CommandLine, *arguments: str) -> tuple[str, str]:
    """What became of the vector arm in a retrieval, and what was told beside the answer."""
    result = cli.run("retrieve", "sill", "--json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["arms"]["vector"]["reason"], result.stderr


def test_a_retrieval_waits_for_the_model(words: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """U13: one question from a terminal has its vectors: it waits until the model is there, and says so."""
    words.ok("vectors", "sync")
    asking = on_for_all(words)
    open_now = threading.Event()

    def slowly(settings: EncoderSettings) -> Encoder:
        assert open_now.wait(PATIENCE_S)
        return load_words(settings)

    def told(text: str) -> None:
        waited.append(text)
        open_now.set()  # not before the answer without vectors was there

    waited: list[str] = []
    monkeypatch.setattr("embeddings.encoder_service.load_encoder", slowly)
    monkeypatch.setattr("service.surfaces.cli.asking.tell", told)
    assert vector_arm(asking)[0] == "ran"
    assert waited == ["loading the model one…"]


@pytest.mark.model
def test_a_retrieval_with_a_real_model(cli: CommandLine, tmp_path: Path) -> None:
    """U13: a process of its own, with a model of its own to load, asks flag, model and store, and uses vectors."""
    for name, text in (("rain", "Rain water leaves through weep holes."), ("key", "A lost key is replaced.")):
        (tmp_path / f"{name}.txt").write_text(text)
        cli.ok("ingest", str(tmp_path / f"{name}.txt"))
    asking = on_for_all(CommandLine(cli.data_dir, {"CITEWELL_EMBEDDING_MODEL": "minilm"}))
    asking.ok("vectors", "sync")
    stdout, stderr = asking.process("retrieve", "drainage", "--json").communicate(timeout=PATIENCE_S)
    answer = json.loads(stdout)
    assert answer["arms"]["vector"] == {"state": "ran", "reason": "ran"}
    assert "weep holes" in answer["results"][0]["text"]
    assert "Traceback" not in stderr


def test_a_retrieval_waits_for_the_flag(words: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """E12: a question from a terminal waits for a slow holder of the flag, which a service would count as off."""
    rows = SqlFlagLedger.rows

    async def slowly(ledger: SqlFlagLedger, workspace: Workspace) -> FlagRows:
        await asyncio.sleep(4 * PROMPT.first_patience)
        return await rows(ledger, workspace)

    words.ok("vectors", "sync")
    asking = on_for_all(words)
    monkeypatch.setattr(SqlFlagLedger, "rows", slowly)
    assert vector_arm(asking)[0] == "ran"


def test_a_retrieval_says_why_it_has_no_vectors(words: CommandLine) -> None:
    """U13: whatever keeps vectors away from a terminal is told in a line of its own beside the answer."""
    words.ok("vectors", "sync")
    asking = on_for_all(words)
    assert vector_arm(asking)[0] == "ran"
    reason, told = vector_arm(words)
    assert reason == "no_model"
    assert "CITEWELL_VECTORS is off here" in told
    with held_store(words):
        reason, told = vector_arm(asking)
    assert reason == "store_unavailable"
    assert "ask the service" in told


def test_a_retrieval_whose_model_cannot_be_had(words: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """U13: a model that cannot be loaded ends the wait, and is named."""

    def missing(_: object) -> Encoder:
        raise UnsuitableModel("nowhere to be found")

    words.ok("vectors", "sync")
    asking = on_for_all(words)
    monkeypatch.setattr("embeddings.encoder_service.load_encoder", missing)
    reason, told = vector_arm(asking)
    assert reason == "no_model"
    assert "the model one cannot be loaded: nowhere to be found" in told
    assert "Traceback" not in told


def test_a_retrieval_whose_model_takes_too_long(words: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """U13: the wait for a model has an end, and then the answer is the lexical one."""
    open_now = threading.Event()

    def slowly(settings: EncoderSettings) -> Encoder:
        open_now.wait(PATIENCE_S)
        return load_words(settings)

    words.ok("vectors", "sync")
    asking = on_for_all(words)
    monkeypatch.setattr("embeddings.encoder_service.load_encoder", slowly)
    monkeypatch.setattr("service.surfaces.cli.asking.MODEL_PATIENCE_S", 0.1)
    threading.Timer(2.0, open_now.set).start()  # or the command would not end
    reason, told = vector_arm(asking)
    assert reason == "model_loading"
    assert "answered without vectors: the model one is not loaded" in told


def test_a_drill_without_an_arm(words: CommandLine) -> None:
    """E14: a drill that needs an arm says that there is none; with one it shows the time that was up."""
    reason, told = vector_arm(words, "--force-arm", "slow:300ms")
    assert reason == "no_model"
    assert "there is no vector arm to be slow in this drill: CITEWELL_VECTORS is off here" in told
    words.ok("vectors", "sync")
    assert vector_arm(on_for_all(words), "--force-arm", "slow:60000ms")[0] == "store_timeout"


@pytest.mark.parametrize("command", WRITING)
def test_another_worker_is_not_disturbed(words: CommandLine, command: tuple[str, ...]) -> None:
    """C24: beside a worker that has the collection every writing command refuses, before it touches anything."""
    words.ok("vectors", "sync")
    lose(words, "door")
    add(words, "later")
    (collection,) = collections(words)
    with another_worker(words, collection):
        assert "another worker" in words.fails(UNAVAILABLE, "unavailable", "vectors", *command)
        assert points(words) == 2
        assert words.json("vectors", "reconcile", "--check")["points"] == 2
    words.ok("vectors", *command)
    assert pending(words) == (0 if command != ("reconcile",) else 1)


def test_migrate(words: CommandLine) -> None:
    """E16: migrate builds and switches, keeps the old collection, and says what is left to do."""
    words.ok("vectors", "sync")
    done = words.json("vectors", "migrate", "--model", "two")
    assert (done["switched"], done["passages"], done["points"], done["recall"]) == (True, 3, 3, 1.0)
    shown = words.json("vectors", "status")["collections"]
    assert isinstance(shown, list)
    assert [(one["model"], one["role"]) for one in shown] == [("one", "retired"), ("two", "active")]
    assert shown[1]["name"] == done["collection"]
    assert "serves already" in words.ok("vectors", "migrate", "--model", "two")
    back = words.ok("vectors", "migrate", "--model", "one")
    assert "3 passages, 3 points, recall@10 1.000" in back
    assert "CITEWELL_EMBEDDING_MODEL=one" in back


def test_two_migrations_at_once(words: CommandLine) -> None:
    """E16: while one process builds a collection another refuses, and what serves goes on."""
    words.ok("vectors", "sync")
    (serving,) = collections(words)
    built = asyncio.run(register(words, "two"))
    with another_worker(words, built):
        words.fails(UNAVAILABLE, "unavailable", "vectors", "migrate", "--model", "two")
        words.fails(UNAVAILABLE, "unavailable", "vectors", "drop", built.name)
    assert [(one.name, one.role.value) for one in collections(words)] == [
        (serving.name, "active"),
        (built.name, "building"),
    ]
    assert words.json("vectors", "migrate", "--model", "two")["collection"] == built.name


async def register(cli: CommandLine, model: str) -> KnownCollection:
    """The collection that a migration to a model has begun to build."""
    fingerprint = hash_fingerprint(model)
    building = KnownCollection(
        name=collection_name(fingerprint.id),
        fingerprint=fingerprint.id,
        model=model,
        dimension=fingerprint.dimension,
        role=CollectionRole.BUILDING,
        created_at=datetime.now(UTC),
    )
    async with open_store(Settings(data_dir=cli.data_dir)) as opened:
        await SqlVectorLedger(opened.engines, "float32").register(building)
    return building


@pytest.mark.parametrize("command", WRITING)
def test_a_model_that_does_not_serve(words: CommandLine, command: tuple[str, ...]) -> None:
    """E16: commands under a third model's name change nothing, and say how a model is changed."""
    words.ok("vectors", "sync")
    third = CommandLine(words.data_dir, {"CITEWELL_EMBEDDING_MODEL": "three"})
    assert "citewell vectors migrate" in third.fails(CONFLICT, "conflict", "vectors", *command)
    assert points(words) == 3


def test_drop(words: CommandLine) -> None:
    """E16: what serves and what is unknown cannot be dropped; what is followed neither; what is retired can."""
    words.ok("vectors", "sync")
    words.ok("vectors", "migrate", "--model", "two")
    retired, serving = collections(words)
    words.fails(NOT_FOUND, "not_found", "vectors", "drop", "passages-nobody")
    words.fails(CONFLICT, "conflict", "vectors", "drop", serving.name)
    with another_worker(words, retired):
        assert "another worker" in words.fails(UNAVAILABLE, "unavailable", "vectors", "drop", retired.name)
    assert words.ok("vectors", "drop", retired.name) == f"dropped {retired.name}\n"
    assert [one.name for one in collections(words)] == [serving.name]
    assert points(words) == 3


@pytest.mark.parametrize(
    "command",
    [("sync",), ("rebuild",), ("reconcile",), ("migrate", "--model", "x")],
)
def test_a_model_that_cannot_be_had(cli: CommandLine, command: tuple[str, ...]) -> None:
    """E16: without the model a command ends with its name and the reason, as what may succeed later."""
    nowhere = str(cli.data_dir / "no-model")
    named = tuple(nowhere if word == "x" else word for word in command)
    without = {"CITEWELL_EMBEDDING_MODEL": nowhere, "CITEWELL_EMBEDDING_HUB": "false"}
    result = CommandLine(cli.data_dir, without).run("vectors", *named)
    assert result.exit_code == UNAVAILABLE
    *_, line = result.stderr.splitlines()  # what the loader logs comes before it
    assert line.startswith(f"error: unavailable: the model {nowhere} cannot be loaded: ")
    assert not line.endswith("None")


def test_an_encoder_that_fails(words: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """C24: an encoder that is ill is no defect of the command: the same may succeed later, and does."""

    def ill(_: object) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(
            "embeddings.encoder_service.load_encoder",
            lambda settings: HashEncoder(hash_fingerprint(settings.model), before=ill),
        )
        assert "cannot encode" in words.fails(UNAVAILABLE, "unavailable", "vectors", "sync")
    assert words.json("vectors", "sync")["upserted"] == 3


@contextmanager
def running(cli: CommandLine, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A command in a process of its own, killed at the end if it is still there."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.words_program", *arguments],
        env={**os.environ, **cli.variables},  # noqa: TID251 - a process needs its path
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    give_up = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up, "it never came to hold"
        time.sleep(0.1)


def ended(process: "subprocess.Popen[str]") -> int:
    """The exit status after SIGTERM."""
    process.send_signal(signal.SIGTERM)
    return process.wait(PATIENCE_S)


def duties(cli: CommandLine) -> list[str]:
    """What the workers do, as the status says."""
    workers: list[Json] = cli.json("vectors", "status")["workers"]  # type: ignore[assignment]
    return sorted(str(one["duty"]) for one in workers)


def test_two_workers_take_turns(words: CommandLine) -> None:
    """C24: one worker follows, the other stands by and goes on when the first ends; SIGTERM is a good end."""
    with running(words, "vectors", "worker") as first:
        until(lambda: pending(words) == 0)
        line = words.fails(UNAVAILABLE, "unavailable", "vectors", "sync")
        assert "another worker" in line
        words.fails(UNAVAILABLE, "unavailable", "vectors", "rebuild")
        with running(words, "vectors", "worker") as second:
            until(lambda: "standby" in duties(words))
            assert ended(first) == 0
            add(words, "later")
            until(lambda: pending(words) == 0)
            assert ended(second) == 0
            assert second.stderr is not None
            said = second.stderr.read()
            standing_by = said.index("standing by: another worker follows the change log\n")
            assert standing_by < said.index("following the change log\n", standing_by + 50)
    assert duties(words) == []
    assert points(words) == 4


def test_a_worker_waits_for_its_model(cli: CommandLine) -> None:
    """C24: a worker without a model is seen as such, and ends when it is told to."""
    nowhere = {
        "CITEWELL_EMBEDDING_MODEL": str(cli.data_dir / "none"),
        "CITEWELL_EMBEDDING_HUB": "false",
    }
    without = CommandLine(cli.data_dir, nowhere)
    process = without.process("vectors", "worker")
    try:
        until(lambda: duties(without) == ["no_model"])
        assert ended(process) == 0
    finally:
        process.kill()
        process.communicate()
