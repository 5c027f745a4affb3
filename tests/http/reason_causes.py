"""Services in which the vector arm does not run, each for a reason of its own, and a model that fits on a page."""

import asyncio
import socket
import socketserver
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from embeddings.encoder import Encoder
from embeddings.encoder_settings import EncoderSettings
from service.settings import Settings, VectorMode
from tests.embeddings.hash_encoder import HashEncoder, hash_fingerprint
from tests.http.calls import document, part, read, store
from tests.http.conftest import Client, connected
from tests.vectors.fault_server import http

PATIENT_S = 60.0  # a budget that no slow machine uses up
BRIEF_S = 0.05


@dataclass(frozen=True, slots=True)
class Asked:
    """A service, and what a request to it says beside its query."""

    client: Client
    options: dict[str, object] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


Cause = Callable[[Path, pytest.MonkeyPatch], AbstractAsyncContextManager[Asked]]


def settings_of(folder: Path, **changes: object) -> Settings:
    """A service with vectors and the flag on, but for the changes."""
    chosen: dict[str, object] = {
        "data_dir": folder / "data",
        "vectors": VectorMode.ON,
        "hybrid_retrieval": "on",
        "vector_budget": PATIENT_S,
        "request_deadline": 2 * PATIENT_S,
        **changes,
    }
    return Settings.model_validate(chosen)


def model_is(patch: pytest.MonkeyPatch, load: Callable[[], Encoder]) -> None:
    """Hashed words take the model's place; all else is real."""

    def load_words(_: EncoderSettings) -> Encoder:
        return load()

    patch.setattr("embeddings.encoder_service.load_encoder", load_words)


@asynccontextmanager
async def serving(settings: Settings, **options: object) -> AsyncIterator[Asked]:
    """A service with a document that the requests find."""
    async with connected(settings) as client:
        await store(client, document("a", "sill"))
        yield Asked(client, options)


def flag(value: str, **headers: str) -> Cause:
    """The flag's own word keeps the arm from running."""

    @asynccontextmanager
    async def cause(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
        model_is(patch, HashEncoder)
        async with serving(settings_of(folder, hybrid_retrieval=value)) as asked:
            yield Asked(asked.client, headers=headers)

    return cause


def drill(order: str, budget: float = PATIENT_S) -> Cause:
    """An operator forces the arm."""

    @asynccontextmanager
    async def cause(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
        model_is(patch, HashEncoder)
        async with serving(settings_of(folder, vector_budget=budget), force_arm=order) as asked:
            yield asked

    return cause


@asynccontextmanager
async def all_is_well(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    """Both arms run."""
    model_is(patch, HashEncoder)
    async with serving(settings_of(folder)) as asked:
        yield asked


@asynccontextmanager
async def vectors_off(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    """The flag asks for vectors of a process that has none."""
    async with serving(settings_of(folder, vectors=VectorMode.OFF)) as asked:
        yield asked


@asynccontextmanager
async def missing_model(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    """The model's folder does not exist."""
    nowhere = {"embedding_model": str(folder / "nowhere"), "embedding_hub": False}
    async with serving(settings_of(folder, **nowhere)) as asked:
        yield asked


@asynccontextmanager
async def loading_model(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    """Loading the model takes longer than the request."""
    there = threading.Event()

    def load() -> Encoder:
        there.wait(PATIENT_S)
        return HashEncoder()

    model_is(patch, load)
    async with serving(settings_of(folder)) as asked:
        try:
            yield asked
        finally:
            there.set()


@asynccontextmanager
async def hanging_encoder(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    """Encoding takes longer than the budget."""
    well = threading.Event()

    def hang(_: Sequence[str]) -> None:
        well.wait(PATIENT_S)

    model_is(patch, lambda: HashEncoder(before=hang))
    async with serving(settings_of(folder, vector_budget=4 * BRIEF_S)) as asked:
        try:
            yield asked
        finally:
            well.set()


@asynccontextmanager
async def failing_encoder(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    """Encoding raises."""

    def fail(_: Sequence[str]) -> None:
        raise RuntimeError("out of memory")

    model_is(patch, lambda: HashEncoder(before=fail))
    async with serving(settings_of(folder)) as asked:
        yield asked


@asynccontextmanager
async def refusing_store(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    """Nobody listens where the Qdrant server should be."""
    with listening(_answer_error) as url:
        closed = url
    model_is(patch, HashEncoder)
    async with serving(settings_of(folder, qdrant_url=closed)) as asked:
        yield asked


@asynccontextmanager
async def silent_store(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    """A Qdrant server accepts connections and answers nothing."""
    done = threading.Event()
    model_is(patch, HashEncoder)
    with listening(lambda _: done.wait(PATIENT_S)) as url:
        async with serving(settings_of(folder, qdrant_url=url, vector_budget=4 * BRIEF_S)) as asked:
            try:
                yield asked
            finally:
                done.set()


@asynccontextmanager
async def erring_store(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    """A Qdrant server answers everything with an error of its own."""
    model_is(patch, HashEncoder)
    with listening(_answer_error) as url:
        async with serving(settings_of(folder, qdrant_url=url)) as asked:
            yield asked


@asynccontextmanager
async def other_vectors(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    """The vectors are another model's: the service was started with a new model and nobody migrated."""
    model_is(patch, HashEncoder)
    async with serving(settings_of(folder)) as asked:
        for _ in range(1_000):
            if await _is_ready(asked.client):
                break
            await asyncio.sleep(0.05)
    model_is(patch, lambda: HashEncoder(hash_fingerprint("another")))
    async with connected(settings_of(folder)) as client:
        yield Asked(client)


@asynccontextmanager
async def no_vectors_yet(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    """No worker has ever run."""
    model_is(patch, HashEncoder)
    async with serving(settings_of(folder, vectors=VectorMode.READ)) as asked:
        yield asked


@contextmanager
def listening(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """A server in threads of its own, since a test client holds up its test's loop; a call is one connection."""

    class Handler(socketserver.BaseRequestHandler):
        """One connection."""

        def handle(self) -> None:
            with suppress(OSError):
                answer(self.request)

    class Server(socketserver.ThreadingTCPServer):
        """Ends without waiting for connections."""

        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def _answer_error(connection: socket.socket) -> None:
    connection.recv(65_536)
    said = b'{"status": {"error": "Service internal error"}, "time": 0.0}'
    connection.sendall(http(500, said, "Connection: close"))


async def _is_ready(client: Client) -> bool:
    vectors = part(read(await client.get("/health/ready")), "parts", "vectors")
    return vectors["state"] == "ready"
