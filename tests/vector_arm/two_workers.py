"""A process with a worker whose encoder is slow and writes down what it is given, to be run beside another."""

import asyncio
import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from service.adapters.sql.ledger import SqlVectorLedger
from service.adapters.vectors.memory import MemoryVectorIndex
from service.bootstrap import open_store
from service.ingest.vectors import StepOutcome, VectorWorker, WorkerSettings
from service.settings import Settings
from tests.rollout.parts import WordEncoder

FORKSERVER = multiprocessing.get_context("forkserver")


@dataclass(frozen=True, slots=True)
class Bench:
    """The database, where encoded texts are written down, and how the work is cut. Times in seconds."""

    settings: Settings
    record: Path
    batch: int
    batch_seconds: float
    lease_seconds: float

    def encoded(self) -> list[str]:
        """Every text that was given to an encoder, in order, by whatever process."""
        return self.record.read_text("utf-8").splitlines() if self.record.exists() else []


class SlowEncoder(WordEncoder):
    """Takes as long for a batch as it is told to, whatever its size."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def encode_passages(self, texts: Sequence[str]) -> Sequence[NDArray[np.float32]]:
        """One window a text, later."""
        lines = "".join(f"{text.splitlines()[-1]}\n" for text in texts)
        with self._bench.record.open("ab", buffering=0) as record:
            record.write(lines.encode())
        await asyncio.sleep(self._bench.batch_seconds)
        return await super().encode_passages(texts)


def work_until_idle(bench: Bench) -> None:
    """Follow the log, or stand by for it, until there is nothing more to do. To be run in a process."""
    asyncio.run(_work(bench))


async def _work(bench: Bench) -> None:
    bounds = WorkerSettings(batch=bench.batch, lease_seconds=bench.lease_seconds)
    async with open_store(bench.settings) as store:
        index = MemoryVectorIndex()
        ledger = SqlVectorLedger(store.engines, "float32")
        worker = VectorWorker(ledger, index, SlowEncoder(bench), "words", bounds, owner=str(os.getpid()))
        while (outcome := await worker.step()) is not StepOutcome.IDLE:
            if outcome is not StepOutcome.WORKED:
                await asyncio.sleep(0.05)
        await worker.release()
        await index.close()
