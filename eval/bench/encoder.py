"""The encoder alone and behind its service, each backend and precision beside plain sentence-transformers.

    python -m eval.bench.encoder --model minilm [--run torch/fp32 openvino/bf16 …] [--json FILE]

Texts are drawn with a seed from a pool of sentences: queries of a sentence's length, passages of about 190
tokens. Times are wall times on whatever else the machine is doing; compare within one run.
"""

import argparse
import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from embeddings.encoder import Encoder, encode_passages
from embeddings.encoder_service import EncoderService
from embeddings.encoder_settings import Backend, EncoderSettings, Precision, ServiceLimits
from embeddings.loader import load_encoder
from embeddings.self_check import PROBES, least_cosine
from embeddings.sentence_transformer import SentenceTransformerEncoder
from embeddings.torch_threads import torch_threads
from embeddings.vectors import Vectors

CALLERS = (1, 4, 16)
NO_CACHE = ServiceLimits(cached_queries=0)
Figures = dict[str, float]
Say = Callable[[str, Figures], None]


@dataclass(frozen=True, slots=True)
class Texts:
    """Seeded queries and passages; every query is different, so that no cache can answer it."""

    queries: list[str]
    passages: list[str]


def texts(queries: int, passages: int, seed: int) -> Texts:
    """The same for the same arguments."""
    rng = np.random.default_rng(seed)
    asked = [PROBES[n] for n in (1, 2, 4, 7, 9)]
    prose = [PROBES[n] for n in (3, 4, 7, 8, 9)]
    drawn = rng.integers(0, len(asked), queries)
    long = [" ".join(rng.permutation(prose).tolist()).split() for _ in range(passages)]
    return Texts(
        queries=[f"{asked[kind]} {number}" for number, kind in enumerate(drawn)],
        passages=[" ".join([*words[: int(rng.integers(100, 180))], str(n)]) for n, words in enumerate(long)],
    )


def milliseconds(seconds: Sequence[float]) -> Figures:
    """Median and 99th percentile."""
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
    return {"p50 ms": round(float(p50), 2), "p99 ms": round(float(p99), 2)}


def alone(encoder: Encoder, made: Texts) -> Figures:
    """One query after the other, then all passages, in this thread."""
    took = []
    for query in made.queries:
        began = time.perf_counter()
        encoder.encode_queries([query])
        took.append(time.perf_counter() - began)
    began = time.perf_counter()
    encode_passages(encoder, made.passages)
    spent = time.perf_counter() - began
    return milliseconds(took) | {"passages/s": round(len(made.passages) / spent, 1)}


def bare(encoder: SentenceTransformerEncoder, made: Texts) -> Figures:
    """The library's own `encode`, in batches of 32, on the same number of threads."""
    with torch_threads(encoder.runner.threads):
        began = time.perf_counter()
        encoder.runner.model.encode(made.passages, batch_size=32, show_progress_bar=False)
        spent = time.perf_counter() - began
    return {"passages/s": round(len(made.passages) / spent, 1)}


async def together(service: EncoderService, queries: Sequence[str], callers: int) -> Figures:
    """Callers that each send their next query when they have the answer to the last."""
    took: list[float] = []
    left = iter(queries)
    before = service.counters

    async def caller() -> None:
        for query in left:
            began = time.perf_counter()
            await service.encode_query(query, deadline_s=120.0)
            took.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    spent = time.perf_counter() - began
    batches = service.counters.query_batches - before.query_batches
    rates = {"queries/s": round(len(took) / spent, 1), "a batch": round(len(took) / batches, 1)}
    return milliseconds(took) | rates


async def while_indexing(service: EncoderService, made: Texts) -> Figures:
    """Queries, ten a second, while passages are encoded; and how fast those are."""
    began = time.perf_counter()
    indexing = asyncio.create_task(service.encode_passages(made.passages))
    took: list[float] = []
    for query in itertools.cycle(made.queries):
        if indexing.done():
            break
        sent = time.perf_counter()
        await service.encode_query(query, deadline_s=120.0)
        took.append(time.perf_counter() - sent)
        await asyncio.sleep(0.1)
    await indexing
    spent = time.perf_counter() - began
    return milliseconds(took) | {"passages/s": round(len(made.passages) / spent, 1)}


async def longest_stall(busy: asyncio.Task[object]) -> float:
    """The longest time, in seconds, that the event loop did not turn while a task ran."""
    worst, last = 0.0, time.perf_counter()
    while not busy.done():
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        worst, last = max(worst, now - last), now
    return worst


@asynccontextmanager
async def served(settings: EncoderSettings, limits: ServiceLimits, say: Say) -> AsyncIterator[EncoderService]:
    """A service with its model loaded; says how long that took and how the event loop fared."""
    service = EncoderService.of(settings, limits)
    began = time.perf_counter()
    service.start()
    stall = await longest_stall(asyncio.create_task(service.wait_ready(300)))
    seconds = {"seconds": round(time.perf_counter() - began, 2), "longest stall ms": round(stall * 1e3, 1)}
    say(f"load, at most {limits.query_batch} queries a batch", seconds)
    yield service
    await service.close()


async def behind_service(settings: EncoderSettings, made: Texts, say: Say) -> None:
    """Concurrent callers with and without micro-batching, and queries beside indexing."""
    for limits in (NO_CACHE, ServiceLimits(cached_queries=0, query_batch=1)):
        kind = "micro-batches" if limits.query_batch > 1 else "one by one"
        async with served(settings, limits, say) as service:
            for callers in CALLERS:
                say(f"{callers} callers, {kind}", await together(service, made.queries, callers))
            if limits.query_batch > 1:
                say("queries while indexing", await while_indexing(service, made))


def combinations(names: Sequence[str]) -> Iterator[tuple[str, Backend, Precision]]:
    """From `backend/precision`."""
    for name in names:
        backend, _, precision = name.partition("/")
        yield name, Backend(backend), Precision(precision)


def run(arguments: argparse.Namespace, say: Say) -> None:
    """Every combination: alone, against fp32, and behind the service."""
    made = texts(arguments.queries, arguments.passages, arguments.seed)
    plain = load_encoder(EncoderSettings(model=arguments.model, threads=arguments.threads))
    reference = _all_rows(plain, made)
    if isinstance(plain, SentenceTransformerEncoder):
        say("sentence-transformers, torch fp32, batches of 32", bare(plain, made))
    for name, backend, precision in combinations(arguments.run):
        settings = EncoderSettings(
            model=arguments.model, backend=backend, precision=precision, threads=arguments.threads
        )
        encoder = load_encoder(settings)
        rows = _all_rows(encoder, made)
        cosines = np.einsum("ij,ij->i", reference, rows)
        say(
            f"{name}, cosine to fp32",
            {"least": round(least_cosine(reference, rows), 6), "mean": round(float(cosines.mean()), 6)},
        )
        say(f"{name}, alone", alone(encoder, made))
        say(f"{name}, this process", {"resident MB": round(psutil.Process().memory_info().rss / 2**20)})
        del encoder
        if not arguments.alone:
            asyncio.run(behind_service(settings, made, _under(name, say)))


def _under(name: str, say: Say) -> Say:
    def said(what: str, figures: Figures) -> None:
        say(f"{name}, {what}", figures)

    return said


def _all_rows(encoder: Encoder, made: Texts) -> Vectors:
    passages = np.vstack(encode_passages(encoder, made.passages[:40]))
    return np.vstack([encoder.encode_queries(made.queries[:40]), passages])


def main() -> None:
    """Print a line for each figure; with --json write them all to a file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--run", nargs="+", default=["torch/fp32", "torch/bf16"], metavar="BACKEND/PRECISION")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--passages", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--alone", action="store_true", help="leave out the service")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures: dict[str, Figures] = {}

    def say(what: str, measured: Figures) -> None:
        figures[what] = measured
        print(f"{what:<58}", "  ".join(f"{name} {value}" for name, value in measured.items()), flush=True)

    run(arguments, say)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
