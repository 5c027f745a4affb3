"""Lexical retrieve, ingest, start and memory, with bare tantivy and bare FTS5 in the same run.

    python -m eval.bench.lexical --passages 200000 [--keep FOLDER] [--json FILE]

Baselines answer the same queries over the same token texts: tantivy's own top 200 with its native scoring,
and SQLite FTS5's bm25 top 8.
"""

import argparse
import asyncio
import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import psutil
import tantivy

from eval.bench.corpus import captures, queries
from service.adapters.lexical.engine import SCHEMA, token_hash
from service.bootstrap import Application, application
from service.core.tokenize import query_terms
from service.model import DEFAULT_WORKSPACE, Capture
from service.search.request import ByQuery, RetrieveOptions
from service.settings import Settings

BATCH = 200  # captures a transaction
FTS_BOUND = 200_000


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def report(name: str, seconds: Sequence[float]) -> dict[str, float]:
    """Print and return a latency line in milliseconds."""
    row = {
        "p50": percentile(seconds, 0.5) * 1e3,
        "p95": percentile(seconds, 0.95) * 1e3,
        "p99": percentile(seconds, 0.99) * 1e3,
    }
    print(f"{name:34} p50 {row['p50']:7.2f}  p95 {row['p95']:7.2f}  p99 {row['p99']:7.2f} ms")
    return row


async def ingest(app: Application, passages: int, seed: int) -> float:
    """Store the corpus; passages a second, the generation of the corpus left out."""
    spent, stored, batch = 0.0, 0, list[Capture]()
    for capture in captures(passages, seed):
        batch.append(capture)
        if len(batch) == BATCH:
            started = time.perf_counter()
            await app.capturing.capture_batch(DEFAULT_WORKSPACE, batch)
            spent += time.perf_counter() - started
            stored += sum(len(one.passages) for one in batch)
            batch = []
    return stored / spent


async def timed(calls: Sequence[Callable[[], Awaitable[object]]]) -> list[float]:
    """Seconds of each call, one after another."""
    seconds = []
    for call in calls:
        started = time.perf_counter()
        await call()
        seconds.append(time.perf_counter() - started)
    return seconds


def bare_tantivy(folder: Path, asked: Sequence[str]) -> list[float]:
    """Tantivy's own top 200 over the same index: one native term query a field and term."""
    index = tantivy.Index.open(str(folder))
    searcher = index.searcher()
    seconds = []
    for text in asked:
        terms = [term.text for term in query_terms(text)]
        started = time.perf_counter()
        parts = [
            (tantivy.Occur.Should, tantivy.Query.term_query(SCHEMA, field, value, option))
            for term in terms
            for field, value, option in (
                ("title", token_hash(term), "basic"),
                ("heading", token_hash(term), "basic"),
                ("body", term, "freq"),
            )
        ]
        hits = searcher.search(tantivy.Query.boolean_query(parts), 200, count=False).hits
        searcher.fast_field_values("key", [address for _, address in hits])
        seconds.append(time.perf_counter() - started)
    return seconds


def bare_fts5(passages: int, seed: int, asked: Sequence[str]) -> list[float]:
    """FTS5's bm25 top 8 over the same texts, in memory."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE f USING fts5(title, heading, body, tokenize='unicode61')")
    for capture in captures(passages, seed):
        database.executemany(
            "INSERT INTO f VALUES (?, ?, ?)", [(capture.title, p.heading, p.text) for p in capture.passages]
        )
    seconds = []
    for text in asked:
        match = " OR ".join(f'"{term.text}"' for term in query_terms(text))
        started = time.perf_counter()
        database.execute("SELECT rowid FROM f WHERE f MATCH ? ORDER BY bm25(f) LIMIT 8", (match,)).fetchall()
        seconds.append(time.perf_counter() - started)
    return seconds


def start_time(folder: Path) -> tuple[float, float]:
    """Seconds from exec to the first answer in a new process, and its resident megabytes after 200 queries."""
    program = (
        "import asyncio,sys,psutil\nfrom pathlib import Path\nfrom service.bootstrap import application\n"
        "from service.settings import Settings\nfrom service.model import DEFAULT_WORKSPACE as W\n"
        "from service.search.request import ByQuery, RetrieveOptions\nfrom eval.bench.corpus import queries\n"
        "async def main():\n"
        "    async with application(Settings(data_dir=Path(sys.argv[1]))) as app:\n"
        "        await app.retriever.retrieve(ByQuery('w1 w2'), RetrieveOptions(W))\n"
        "        print('ready', flush=True)\n"
        "        for q in queries(200, 7): await app.retriever.retrieve(ByQuery(q), RetrieveOptions(W))\n"
        "        print(psutil.Process().memory_info().rss, flush=True)\n"
        "asyncio.run(main())\n"
    )
    started = time.perf_counter()
    with subprocess.Popen(  # noqa: S603 - our own interpreter and program
        [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        process.stdout.readline()
        ready = time.perf_counter() - started
        rss = int(process.stdout.readline()) / 1e6
    return ready, rss


async def run(passages: int, folder: Path, seed: int) -> dict[str, object]:
    """The whole benchmark."""
    asked = queries(400, seed)
    figures: dict[str, object] = {"passages": passages, "seed": seed}
    settings = Settings(data_dir=folder)
    async with application(settings) as app:
        if not app.lexical.status():
            figures["ingest_passages_per_s"] = rate = await ingest(app, passages, seed)
            print(f"ingest {rate:,.0f} passages/s")

        def retrieve(text: str) -> Callable[[], Awaitable[object]]:
            return lambda: app.retriever.retrieve(ByQuery(text), RetrieveOptions(DEFAULT_WORKSPACE))

        await timed([retrieve(text) for text in asked[:50]])
        runs = [await timed([retrieve(text) for text in asked]) for _ in range(3)]
        whole = [statistics.median(each) for each in zip(*runs, strict=True)]
        figures["retrieve"] = report("retrieve, whole use case", whole)
    figures["start_s"], figures["rss_mb"] = start_time(folder)
    print(f"start to first answer {figures['start_s']:.2f} s, resident {figures['rss_mb']:.0f} MB")
    generation = next((folder / "lexical" / "slot-0").glob("*/g*"))
    runs = [bare_tantivy(generation, asked) for _ in range(3)]
    bare = [statistics.median(each) for each in zip(*runs, strict=True)]
    figures["tantivy"] = report("bare tantivy, top 200", bare)
    ratio = percentile(whole, 0.5) / percentile(bare, 0.5)
    figures["ratio_to_tantivy"] = ratio
    print(f"whole use case / bare tantivy at p50: {ratio:.2f}")
    if passages <= FTS_BOUND:
        fts = bare_fts5(passages, seed, asked)
        figures["fts5"] = report("bare FTS5, top 8", fts)
        figures["ratio_to_fts5"] = percentile(whole, 0.5) / percentile(fts, 0.5)
        print(f"whole use case / bare FTS5 at p50: {figures['ratio_to_fts5']:.3f}")
    return figures


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passages", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--keep", type=Path, help="use and keep this data folder")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    folder = arguments.keep or Path(tempfile.mkdtemp())
    print(f"{arguments.passages:,} passages; {psutil.cpu_count()} cores; load {psutil.getloadavg()[0]:.1f}")
    figures = asyncio.run(run(arguments.passages, folder, arguments.seed))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2), "utf-8")
    if arguments.keep is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
