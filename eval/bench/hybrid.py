"""Hybrid retrieval without encoding: the whole use case on SQLite, tantivy and Qdrant Edge with its graph.

    python -m eval.bench.hybrid --passages 100000 --dimension 768 [--keep FOLDER] [--json FILE] [--profile FILE]

Query vectors are at hand, as in a warm cache. Every round asks all queries of each series; a figure is the
median of the rounds' percentiles, with the rounds' least and most beside p50. Baselines in the same run: the
lexical answer, and the bare store's search as deep as retrieve asks. The arms agree on nothing here, so the
rows that are loaded are as many as can be. Recall is counted against brute force in numpy, afterwards, so
that its rows are not in the memory that is stated.
"""

import argparse
import asyncio
import cProfile
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import psutil

from eval.bench.corpus import captures, queries
from eval.bench.figures import Figures, machine, tell
from eval.bench.lexical import ingest
from eval.bench.ready import (
    FILLING,
    GENEROUS_S,
    Drawn,
    House,
    ReadyEncoder,
    ask,
    collection_of,
    edge,
    follow,
    nearest,
    opened,
)
from eval.bench.vectors import memory
from service.adapters.vectors.qdrant_edge.index import EdgeVectorIndex
from service.ingest.vectors import VectorWorker
from service.model import DEFAULT_WORKSPACE
from service.ports.vectors import VectorQuery
from service.search.hybrid import FUSION_DEPTH
from service.search.request import Arms, ArmState, ByQuery, RetrieveOptions
from service.search.vector_arm import SPARE

WARM_UP = 50
NEAREST = 10
ASKED = FUSION_DEPTH + FUSION_DEPTH // SPARE  # points that a read asks for
EXACT_POINTS = 20_000  # the store's own threshold; a smaller corpus lowers it, so that a graph is built
Call = Callable[[str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Size:
    """What is measured. `passages` is a multiple of 1,000."""

    passages: int
    dimension: int
    queries: int
    rounds: int
    seed: int

    @property
    def drawn(self) -> Drawn:
        """Every text's vector."""
        return Drawn(self.dimension, self.seed)

    @property
    def exact_points(self) -> int:
        """Points up to which the store searches exactly."""
        return min(EXACT_POINTS, self.passages // 2)


def fill(folder: Path, size: Size) -> Figures:
    """Store the corpus and its vectors and build the graph; to be run in a process of its own."""
    return asyncio.run(_filled(folder, size))


async def _filled(folder: Path, size: Size) -> Figures:
    figures: Figures = {}
    encoder = ReadyEncoder(size.drawn)
    async with opened(folder) as house:
        figures["ingest passages/s"] = await ingest(house.app, size.passages, size.seed)
        async with edge(folder, 10**9) as index:
            began = time.perf_counter()
            await follow(VectorWorker(house.ledger, index, encoder, "ready", FILLING))
            figures["vectors passages/s"] = size.passages / (time.perf_counter() - began)
    began = time.perf_counter()
    async with edge(folder, size.exact_points) as index:
        await index.ensure(collection_of(encoder), size.dimension, soon())
        while not await _settled(index, folder, encoder):  # noqa: ASYNC110 - the store has no event
            await asyncio.sleep(0.1)
    return figures | {"graph seconds": time.perf_counter() - began}


async def _settled(index: EdgeVectorIndex, folder: Path, encoder: ReadyEncoder) -> bool:
    """Whether every point is in the graph and the shard that was searched before is gone."""
    name = collection_of(encoder)
    shards = await asyncio.to_thread(lambda: list((folder / "vectors" / name).glob("shard-*")))
    return not await index.outside_graph(name, soon()) and len(shards) == 1


def soon() -> float:
    """A generous deadline."""
    return time.monotonic() + GENEROUS_S


async def timed(call: Call, asked: Sequence[str]) -> list[float]:
    """Seconds of each query, one after another."""
    seconds = []
    for text in asked:
        began = time.perf_counter()
        await call(text)
        seconds.append(time.perf_counter() - began)
    return seconds


def spread(rounds: Sequence[Sequence[float]]) -> Figures:
    """The median over the rounds of each percentile, in milliseconds, and the least and most p50 of a round."""
    p50, p95, p99 = np.percentile(np.array(rounds), [50, 95, 99], axis=1) * 1e3
    middle = {name: float(np.median(row)) for name, row in (("p50", p50), ("p95", p95), ("p99", p99))}
    return middle | {"least p50": float(p50.min()), "most p50": float(p50.max())}


async def measured(
    house: House, index: EdgeVectorIndex, size: Size, profile: Path | None
) -> dict[str, Figures]:
    """Every series, interleaved by rounds, and the memory while they are asked."""
    asked = queries(size.queries, size.seed)
    encoder = ReadyEncoder(size.drawn, asked)
    retriever = house.retriever(house.arm(encoder, index))
    states: list[ArmState] = []

    async def hybrid(text: str) -> None:
        states.append(await ask(retriever, text))

    async def lexical(text: str) -> None:
        await retriever.retrieve(ByQuery(text), RetrieveOptions(DEFAULT_WORKSPACE, arms=Arms.LEXICAL))

    async def bare(text: str, limit: int) -> None:
        vector = await encoder.encode_query(text, DEFAULT_WORKSPACE)
        query = VectorQuery(vector, DEFAULT_WORKSPACE, None, limit)
        await index.search(collection_of(encoder), query, soon())

    deep, near = f"bare store, {ASKED} best", f"bare store, {NEAREST} best"
    series: dict[str, Call] = {
        "hybrid, whole use case": hybrid,
        "lexical, whole use case": lexical,
        deep: partial(bare, limit=ASKED),
        near: partial(bare, limit=NEAREST),
    }
    for call in series.values():
        await timed(call, asked[:WARM_UP])
    rounds: dict[str, list[list[float]]] = {name: [] for name in series}
    for _ in range(size.rounds):
        for name, call in series.items():
            rounds[name].append(await timed(call, asked))
    figures = {name: spread(each) for name, each in rounds.items()}
    figures["memory"] = {"this process MB": psutil.Process().memory_info().rss / 2**20} | {
        f"store {name}": value for name, value in memory().items()
    }
    middle = figures["hybrid, whole use case"]["p50"]
    figures["ratios at p50"] = {
        "hybrid / lexical": middle / figures["lexical, whole use case"]["p50"],
        "hybrid / bare store": middle / figures[deep]["p50"],
    }
    figures["vector arm"] = {
        "ran": sum(state is ArmState.RAN for state in states),
        "degraded": sum(state is not ArmState.RAN for state in states),
    }
    if profile is not None:
        await _profiled(hybrid, asked, profile)
    figures["recall"] = await recall(index, encoder, asked, size)
    return figures


async def _profiled(call: Call, asked: Sequence[str], file: Path) -> None:
    with cProfile.Profile() as profiler:
        await timed(call, asked)
    profiler.dump_stats(file)


async def recall(index: EdgeVectorIndex, encoder: ReadyEncoder, asked: Sequence[str], size: Size) -> Figures:
    """The share of the truly nearest passages that the store finds, at both depths."""
    truth = nearest(size.drawn, captures(size.passages, size.seed), asked, FUSION_DEPTH)
    found: dict[int, list[float]] = {}
    for limit, depth in ((NEAREST, NEAREST), (ASKED, FUSION_DEPTH)):
        for text, best in zip(asked, truth, strict=True):
            vector = await encoder.encode_query(text, DEFAULT_WORKSPACE)
            query = VectorQuery(vector, DEFAULT_WORKSPACE, None, limit)
            hits = await index.search(collection_of(encoder), query, soon())
            names = {(hit.key.item_id, hit.key.seq) for hit in hits[:depth]}
            found.setdefault(depth, []).append(len(names & set(best[:depth])) / min(depth, len(best)))
    return {f"at {depth}": statistics.fmean(shares) for depth, shares in found.items()}


async def run(size: Size, folder: Path, profile: Path | None = None) -> dict[str, Figures]:
    """The whole benchmark; the folder is filled unless it was filled before."""
    filled = folder / "filled.json"
    if not filled.exists():
        with ProcessPoolExecutor(1, get_context("spawn")) as apart:  # the memory of filling is not ours
            figures = await asyncio.get_running_loop().run_in_executor(apart, fill, folder, size)
        filled.write_text(json.dumps(figures), "utf-8")
    async with opened(folder) as house, edge(folder, size.exact_points) as index:
        return {"fill": json.loads(filled.read_text("utf-8"))} | await measured(house, index, size, profile)


def main() -> None:
    """Print a line for each figure; with --json write them all to a file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passages", type=int, default=20_000, help="a multiple of 1,000")
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--keep", type=Path, help="use and keep this data folder")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--profile", type=Path, help="write a cProfile of one more round here")
    given = parser.parse_args()
    size = Size(given.passages, given.dimension, given.queries, given.rounds, given.seed)
    before = machine()
    kept = (
        tempfile.TemporaryDirectory(prefix="citewell-bench-")
        if given.keep is None
        else nullcontext(given.keep)
    )
    with kept as folder:
        figures = asyncio.run(run(size, Path(folder), given.profile))
    tell({"machine": before, **figures}, given.json)


if __name__ == "__main__":
    main()
