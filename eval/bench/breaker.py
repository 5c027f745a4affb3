"""What a vector store that is down adds to the lexical answer: before the breaker opens, and after.

    python -m eval.bench.breaker [--passages 20000] [--queries 100] [--repeats 5] [--json FILE]

Three ways to be down: a port that refuses and a port that accepts and never answers (both by the Qdrant server
adapter), and Qdrant Edge whose process is killed whenever it comes back. Every query is asked twice in a row,
lexically and with the flag on, the first one changing; a figure is the median of the differences. Each repeat
begins with a closed breaker. The deadline is the product's own (`vector_budget`), counted from the request's
start. A probe of the open breaker is a request of its own kind and is counted apart. Last, a process of Edge is
killed once, and the time until vectors are in the answers again is taken.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from eval.bench.corpus import queries
from eval.bench.figures import Figures, machine, tell
from eval.bench.lexical import ingest
from eval.bench.outages import dying, kill_shards, refusing, silent
from eval.bench.ready import Drawn, House, ReadyEncoder, ask, collection_of, edge, follow, opened
from service.core.breaker import FAILURES
from service.ingest.vectors import VectorWorker
from service.model import DEFAULT_WORKSPACE
from service.ports.vectors import VectorSearch
from service.search.request import Arms, ArmState, ByQuery, RetrieveOptions
from service.search.retrieve import Retriever

DIMENSION = 64
PATIENCE_S = 30.0
Outage = Callable[[], AbstractAsyncContextManager[VectorSearch]]


@dataclass(frozen=True, slots=True)
class Size:
    """`queries` a repeat, the first ones of which find the breaker closed."""

    passages: int
    queries: int
    repeats: int
    seed: int = 11


@dataclass(slots=True)
class Added:
    """Seconds that requests took beyond the lexical answer to the same query."""

    failing: list[list[float]] = field(default_factory=lambda: [[] for _ in range(FAILURES)])
    open: list[float] = field(default_factory=list)
    lexical: list[float] = field(default_factory=list)
    ran: int = 0

    def figures(self) -> Figures:
        """Medians in milliseconds."""
        rows = {f"request {number}": each for number, each in enumerate(self.failing, start=1)}
        rows |= {"open": self.open, "lexical answer": self.lexical}
        medians = {f"{name} ms": float(np.median(row)) * 1e3 for name, row in rows.items() if row}
        tail = float(np.percentile(self.open, 95)) * 1e3 if self.open else 0.0
        return medians | {"open p95 ms": tail, "answers with vectors": self.ran}


async def seconds(retriever: Retriever, text: str, arms: Arms) -> tuple[float, ArmState]:
    """How long one answer takes, and what became of its vector arm."""
    began = time.perf_counter()
    answer = await retriever.retrieve(ByQuery(text), RetrieveOptions(DEFAULT_WORKSPACE, arms=arms))
    return time.perf_counter() - began, answer.vector.state


async def both(retriever: Retriever, text: str, number: int) -> tuple[float, float, ArmState]:
    """Seconds of the lexical answer and of the one by the flag, in alternating order."""
    if number % 2:
        lexical, _ = await seconds(retriever, text, Arms.LEXICAL)
        flagged, state = await seconds(retriever, text, Arms.BY_FLAG)
    else:
        flagged, state = await seconds(retriever, text, Arms.BY_FLAG)
        lexical, _ = await seconds(retriever, text, Arms.LEXICAL)
    return lexical, flagged, state


async def one_repeat(house: House, store: VectorSearch, asked: Sequence[str], added: Added) -> None:
    """All queries against a store that is down, from a closed breaker on."""
    encoder = ReadyEncoder(Drawn(DIMENSION, 0), asked)
    arm = house.arm(encoder, store)
    retriever = house.retriever(arm, budget=house.app.settings.vector_budget)
    for text in asked:  # the lexical side is warm; the arm is not touched
        await seconds(retriever, text, Arms.LEXICAL)
    for number, text in enumerate(asked):
        before = arm.breakers.store
        lexical, flagged, state = await both(retriever, text, number)
        added.lexical.append(lexical)
        added.ran += state is ArmState.RAN
        added_row = added.open if before.is_open else added.failing[before.failures]
        added_row.append(flagged - lexical)
    await arm.close()


async def repeated(house: House, down: Outage, asked: Sequence[str], size: Size) -> Figures:
    """What requests take beyond the lexical answer while the store is down that way."""
    added = Added()
    for _ in range(size.repeats):
        async with down() as index:
            await one_repeat(house, index, asked, added)
    return added.figures()


async def recovery(house: House, folder: Path, asked: Sequence[str], size: Size) -> Figures:
    """One kill: the answers without vectors that follow, what they cost, and how long it lasts."""
    async with edge(folder, size.passages) as index:
        encoder = ReadyEncoder(Drawn(DIMENSION, 0), asked)
        retriever = house.retriever(house.arm(encoder, index), budget=house.app.settings.vector_budget)
        give_up = time.perf_counter() + PATIENCE_S
        while await ask(retriever, asked[0]) is not ArmState.RAN:
            if time.perf_counter() > give_up:
                raise RuntimeError("the embedded store never answered")
            await asyncio.sleep(0.01)
        kill_shards()
        began, took = time.perf_counter(), list[float]()
        while time.perf_counter() - began < PATIENCE_S:
            spent, state = await seconds(retriever, asked[len(took) % len(asked)], Arms.BY_FLAG)
            if state is ArmState.RAN:
                break
            took.append(spent)
        return {
            "seconds without vectors": time.perf_counter() - began,
            "answers without vectors": len(took),
            "longest ms": max(took, default=0.0) * 1e3,
        }


async def run(size: Size, folder: Path) -> dict[str, Figures]:
    """All of it over one corpus, whose vectors are real ones of Edge."""
    asked = queries(size.queries, size.seed)
    async with opened(folder) as house:
        await ingest(house.app, size.passages, size.seed)
        async with edge(folder, size.passages) as index:
            await follow(VectorWorker(house.ledger, index, ReadyEncoder(Drawn(DIMENSION, 0)), "ready"))
        deadline = {"ms": house.app.settings.vector_budget * 1e3, "failures to open": float(FAILURES)}
        name = collection_of(ReadyEncoder(Drawn(DIMENSION, 0)))
        downs: dict[str, Outage] = {
            "server refuses": refusing,
            "server never answers": silent,
            "edge killed again and again": partial(dying, folder, name, DIMENSION),
        }
        figures = {what: await repeated(house, down, asked, size) for what, down in downs.items()}
        once = await recovery(house, folder, asked, size)
        return {"deadline": deadline, **figures, "edge killed once": once}


def main() -> None:
    """Print a line for each figure; with --json write them all to a file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passages", type=int, default=20_000, help="a multiple of 1,000")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    size = Size(given.passages, given.queries, given.repeats, given.seed)
    before = machine()
    with tempfile.TemporaryDirectory(prefix="citewell-bench-") as folder:
        figures = asyncio.run(run(size, Path(folder)))
    tell({"machine": before, **figures}, given.json)


if __name__ == "__main__":
    main()
