"""A house with a vector arm whose encoder fits on a page, and a flag that a test sets."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from service.adapters.sql.engine import Engines
from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.vectors.memory import MemoryVectorIndex
from service.bootstrap import Application
from service.core.rollout import OFF, FlagState
from service.ingest.vectors import StepOutcome, VectorWorker
from service.model import DEFAULT_WORKSPACE, Workspace
from service.ports.embedding import EncoderState
from service.ports.flag import RolloutFlag
from service.search.plan import Hybrid, Report
from service.search.retrieve import Retriever
from service.search.vector_arm import VectorArm
from tests.builders import capture, store

Float32Array = NDArray[np.float32]
DIMENSION = 64
SAME = {"sill": "threshold", "repair": "maintenance", "noise": "acoustic", "fix": "maintenance"}
GENEROUS_S = 30.0  # a budget that no slow machine uses up


class WordEncoder:
    """A word is a dimension, and synonyms share one. Implements Encoder."""

    state = EncoderState.READY
    failure = None
    fingerprint = "words-1"
    dimension = DIMENSION

    async def encode_query(self, text: str, workspace: Workspace) -> Float32Array:
        """(64,) float32, unit length."""
        return _vector(text)

    async def encode_passages(self, texts: Sequence[str]) -> Sequence[Float32Array]:
        """One window a text."""
        return [_vector(text)[None, :] for text in texts]


def _vector(text: str) -> Float32Array:
    row = np.zeros(DIMENSION, dtype=np.float32)
    row[0] = 0.1  # so that a text without words has a direction too
    for word in text.lower().replace(".", " ").split():
        name = SAME.get(word, word).encode()
        row[1 + int.from_bytes(hashlib.sha256(name).digest()[:4], "big") % (DIMENSION - 1)] += 1.0
    unit: Float32Array = row / np.linalg.norm(row)
    return unit


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds, for ten seconds at most."""
    for _ in range(1_000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to hold")


async def until(flag: RolloutFlag, workspace: Workspace, state: FlagState) -> None:
    """Ask until the flag is in a state, for ten seconds at most."""
    for _ in range(1_000):
        if await flag.state(workspace) == state:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"the flag never was {state}")


@dataclass(slots=True)
class SetFlag:
    """A flag that is what a test says. Implements RolloutFlag."""

    default: FlagState = OFF
    overrides: dict[Workspace, FlagState] = field(default_factory=dict)

    async def state(self, workspace: Workspace) -> FlagState:
        """What was set last."""
        return self.overrides.get(workspace, self.default)


@dataclass(frozen=True, slots=True)
class House:
    """A corpus with both arms. `flag` decides who gets the vector arm."""

    app: Application
    arm: VectorArm
    flag: SetFlag

    def retriever(self, shadow: Report | None = None, budget: float = GENEROUS_S) -> Retriever:
        """The read path under the flag."""
        return Retriever(
            self.app.store, self.app.lexical, Hybrid(self.arm, self.flag, budget=budget, shadow=shadow)
        )

    def lexical_retriever(self) -> Retriever:
        """The read path of a process that has no vector arm at all."""
        return Retriever(self.app.store, self.app.lexical)


@asynccontextmanager
async def house(app: Application, engines: Engines) -> AsyncIterator[House]:
    """Both arms over a small corpus in which synonyms make them differ."""
    index = MemoryVectorIndex()
    ledger = SqlVectorLedger(engines, "float32")
    worker = VectorWorker(ledger, index, WordEncoder(), "words")
    await store(app, *CORPUS)
    while await worker.step() is StepOutcome.WORKED:
        pass
    yield House(app, VectorArm(WordEncoder(), index, ledger), SetFlag())
    await worker.release()
    await index.close()


CORPUS = [
    capture("sills.md", "sill heights for doors", "a threshold of ten millimetres", title="Sills"),
    capture("care.md", "maintenance of the threshold", "annual maintenance plan", title="Care"),
    capture("fix.md", "how to repair a door sill", "fix a loose handle", title="Repairs"),
    capture("sound.md", "acoustic values of doors", "noise from the street", title="Sound"),
    capture("glass.md", "glass thickness", "coated glass for doors", title="Glass"),
]
QUERIES = ["sill", "repair threshold", "noise", "door maintenance", "glass doors", "nothing-like-this", ""]
WORKSPACE = DEFAULT_WORKSPACE
