"""The embedded vector index, through its process, beside brute-force numpy in the same run.

    python -m eval.bench.vectors --points 100000 --dimension 768 [--quantization none] [--json FILE]

Vectors are seeded: a mixture in a space of few dimensions, carried into many and roughened, which is nearer
to what encoders give than noise is (an HNSW graph over pure noise finds little). Queries are drawn alike.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray

from service.adapters.vectors.qdrant_edge.index import EdgeVectorIndex
from service.adapters.vectors.qdrant_edge.settings import EdgeSettings, GraphSettings, Quantization
from service.model import DEFAULT_WORKSPACE, ContentType, ItemId
from service.ports.vectors import PointKey, VectorPoint, VectorQuery, collection_name

LATENT = 32
CLUSTERS = 500
BATCH = 512
NAME = collection_name("benchmark")
Matrix = NDArray[np.float32]
Figures = dict[str, float]
Truth = list[set[PointKey]]


@dataclass(frozen=True, slots=True)
class Corpus:
    """(n, dimension) unit rows; point number i belongs to row i."""

    points: list[VectorPoint]
    rows: Matrix
    queries: Matrix


def corpus(count: int, dimension: int, queries: int, seed: int) -> Corpus:
    """The same for the same arguments."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((CLUSTERS, LATENT))
    carrier = rng.standard_normal((LATENT, dimension)) / np.sqrt(LATENT)

    def drawn(many: int) -> Matrix:
        latent = centres[rng.integers(0, CLUSTERS, many)] + 0.7 * rng.standard_normal((many, LATENT))
        rows = (latent @ carrier + 0.3 * rng.standard_normal((many, dimension))).astype(np.float32)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)

    kinds = list(ContentType)
    points = [
        VectorPoint(DEFAULT_WORKSPACE, kinds[n // 5 % 4], PointKey(ItemId(f"item-{n // 5:07d}"), n % 5))
        for n in range(count)
    ]
    return Corpus(points, drawn(count), drawn(queries))


def milliseconds(seconds: list[float]) -> Figures:
    """Median and 99th percentile."""
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
    return {"p50 ms": round(float(p50), 2), "p99 ms": round(float(p99), 2)}


@dataclass(frozen=True, slots=True)
class Asked:
    """What every query of a measurement asks for."""

    limit: int
    content_type: ContentType | None = None

    def __str__(self) -> str:
        """How it is printed."""
        return f"{self.limit} best" + (f" of {self.content_type}" if self.content_type else "")


def brute_force(made: Corpus, asked: Asked) -> tuple[Figures, Truth]:
    """Numpy in this process: one product, one partition. The answers are the truth for recall."""
    wanted = np.array([asked.content_type in (None, point.content_type) for point in made.points])
    took, truth = [], []
    for query in made.queries:
        began = time.perf_counter()
        scores = made.rows @ query
        if asked.content_type is not None:
            scores[~wanted] = -np.inf
        best = np.argpartition(-scores, asked.limit)[: asked.limit]
        best = best[np.argsort(-scores[best])]
        took.append(time.perf_counter() - began)
        truth.append({made.points[number].key for number in best})
    return milliseconds(took), truth


async def searched(index: EdgeVectorIndex, made: Corpus, asked: Asked, truth: Truth) -> Figures:
    """One search after the other, and the share of the truth that was found."""
    took: list[float] = []
    found = 0
    for number, query in enumerate(made.queries):
        wanted = VectorQuery(query, DEFAULT_WORKSPACE, asked.content_type, asked.limit)
        began = time.perf_counter()
        hits = await index.search(NAME, wanted, soon())
        took.append(time.perf_counter() - began)
        found += len(truth[number] & {hit.key for hit in hits})
    return milliseconds(took) | {"recall": round(found / (asked.limit * len(truth)), 4)}


ASKED = (Asked(10), Asked(200), Asked(200, ContentType.BLOG))


async def stored(index: EdgeVectorIndex, made: Corpus) -> Figures:
    """Points a second, in batches, each acknowledged before the next."""
    began = time.perf_counter()
    for start in range(0, len(made.points), BATCH):
        end = start + BATCH
        await index.upsert(NAME, made.points[start:end], made.rows[start:end], soon())
    return {"points/s": round(len(made.points) / (time.perf_counter() - began))}


async def while_writing(index: EdgeVectorIndex, made: Corpus) -> Figures:
    """Searches while the same points are stored again by somebody else."""
    writing = asyncio.create_task(stored(index, made))
    took: list[float] = []
    while not writing.done():
        query = VectorQuery(made.queries[len(took) % len(made.queries)], DEFAULT_WORKSPACE, None, 10)
        began = time.perf_counter()
        await index.search(NAME, query, soon())
        took.append(time.perf_counter() - began)
        await asyncio.sleep(0.005)
    return milliseconds(took) | await writing


async def while_building(index: EdgeVectorIndex, made: Corpus) -> Figures:
    """Searches from now until every point is in the graph, and how long that takes."""
    started, took = time.perf_counter(), list[float]()
    while await index.outside_graph(NAME, soon()):
        query = VectorQuery(made.queries[len(took) % len(made.queries)], DEFAULT_WORKSPACE, None, 10)
        began = time.perf_counter()
        await index.search(NAME, query, soon())
        took.append(time.perf_counter() - began)
        await asyncio.sleep(0.02)
    return milliseconds(took) | {"seconds": round(time.perf_counter() - started, 1)}


def memory() -> Figures:
    """Of the processes that serve shards: resident, and what of it is theirs alone (not mapped files)."""
    serving = [child for child in psutil.Process().children() if "serve_shard" in " ".join(child.cmdline())]
    infos = [child.memory_full_info() for child in serving]
    return {
        "resident MB": round(sum(info.rss for info in infos) / 2**20),
        "own MB": round(sum(info.uss for info in infos) / 2**20),
    }


def soon() -> float:
    """A generous deadline."""
    return time.monotonic() + 120.0


@asynccontextmanager
async def opened(settings: EdgeSettings, dimension: int) -> AsyncIterator[EdgeVectorIndex]:
    """The store, with its collection open."""
    index = EdgeVectorIndex(settings)
    await index.ensure(NAME, dimension, soon())
    yield index
    await index.close()


async def run(arguments: argparse.Namespace, root: Path, say: Callable[[str, Figures], None]) -> None:
    """Store and search exactly, then reopen, build the graph and search by it."""
    made = corpus(arguments.points, arguments.dimension, arguments.queries, arguments.seed)
    truths = {}
    for asked in ASKED:
        figures, truths[asked] = brute_force(made, asked)
        say(f"numpy, {asked}", figures)
    graph = GraphSettings(quantization=Quantization(arguments.quantization))
    async with opened(EdgeSettings(root, exact_points=10**9), arguments.dimension) as index:
        say("upsert", await stored(index, made))
        say("memory, exact", memory())
        for asked in ASKED:
            say(f"exact, {asked}", await searched(index, made, asked, truths[asked]))
    began = time.perf_counter()
    settings = EdgeSettings(root, exact_points=min(20_000, arguments.points // 2), graph=graph)
    async with opened(settings, arguments.dimension) as index:
        say("reopened", {"seconds": round(time.perf_counter() - began, 2)})
        say("10 best, while the graph is built", await while_building(index, made))
        for asked in ASKED:
            say(f"graph, {asked}", await searched(index, made, asked, truths[asked]))
        say("memory, graph", memory())
        if arguments.rewrite:
            say("10 best, while every point is stored again", await while_writing(index, made))


def main() -> None:
    """Print a line for each figure; with --json write them all to a file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--quantization", choices=[*Quantization], default=Quantization.INT8)
    parser.add_argument(
        "--rewrite", action="store_true", help="also search while every point is stored again"
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures: dict[str, Figures] = {}

    def say(what: str, measured: Figures) -> None:
        figures[what] = measured
        print(f"{what:45}", "  ".join(f"{name} {value:g}" for name, value in measured.items()), flush=True)

    with tempfile.TemporaryDirectory(prefix="citewell-bench-") as folder:
        asyncio.run(run(arguments, Path(folder), say))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
