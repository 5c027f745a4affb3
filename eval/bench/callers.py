"""Queries a second of concurrent callers with a real model, with micro-batching and without, in one run.

    python -m eval.bench.callers --model minilm [--queries 200] [--rounds 3] [--json FILE]

Both services hold the same model and are open all along; they take turns within every round, the first one
changing, so that what else the machine does falls on both. No text is asked twice, and nothing is cached.
A figure is the median over the rounds, with the least and most queries a second of a round beside it.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from embeddings.encoder_service import EncoderService
from embeddings.encoder_settings import EncoderSettings, ServiceLimits
from eval.bench.encoder import texts
from eval.bench.figures import Figures, machine, tell

CALLERS = (1, 4, 16)
LOAD_S = 300.0
DEADLINE_S = 120.0  # a query's: nothing is cut short
KINDS = {
    "micro-batches": ServiceLimits(cached_queries=0),
    "one by one": ServiceLimits(cached_queries=0, query_batch=1),
}


@dataclass(frozen=True, slots=True)
class Size:
    """`queries` a turn, the same number for each number of callers."""

    queries: int
    rounds: int
    callers: Sequence[int] = CALLERS
    seed: int = 7


async def turn(service: EncoderService, queries: Sequence[str], callers: int) -> Figures:
    """Callers that each send their next query when they have the answer to the last."""
    took: list[float] = []
    left = iter(queries)
    before = service.counters

    async def caller() -> None:
        for query in left:
            began = time.perf_counter()
            await service.encode_query(query, deadline_s=DEADLINE_S)
            took.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    spent = time.perf_counter() - began
    after = service.counters
    p50, p95 = np.percentile(took, [50, 95]) * 1e3
    return {
        "queries/s": len(took) / spent,
        "p50 ms": float(p50),
        "p95 ms": float(p95),
        "a batch": len(took) / (after.query_batches - before.query_batches),
        "from cache": after.cache_hits - before.cache_hits,
    }


def middle(rounds: Sequence[Figures]) -> Figures:
    """The median of each figure, and the spread of the rate."""
    rates = [each["queries/s"] for each in rounds]
    medians = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
    return medians | {"least": min(rates), "most": max(rates)}


async def run(settings: EncoderSettings, size: Size) -> dict[str, Figures]:
    """Every number of callers, both ways, and the ratio of the rates."""
    turns = size.rounds * len(size.callers) * len(KINDS)
    distinct = iter(texts(size.queries * turns, 0, size.seed).queries)
    measured: dict[tuple[str, int], list[Figures]] = {}
    async with AsyncExitStack() as stack:
        services: dict[str, EncoderService] = {}
        for kind, limits in KINDS.items():
            services[kind] = service = EncoderService.of(settings, limits)
            stack.push_async_callback(service.close)
            service.start()
            await service.wait_ready(LOAD_S)
            await turn(service, ["to warm up", "once more"], 1)
        for number in range(size.rounds):
            for callers in size.callers:
                for kind in list(KINDS)[:: 1 if number % 2 == 0 else -1]:
                    asked = [next(distinct) for _ in range(size.queries)]
                    measured.setdefault((kind, callers), []).append(
                        await turn(services[kind], asked, callers)
                    )
    figures = {f"{callers} callers, {kind}": middle(rounds) for (kind, callers), rounds in measured.items()}
    figures["micro-batches / one by one"] = {
        f"{callers} callers": statistics.median(
            batched["queries/s"] / single["queries/s"]
            for batched, single in zip(*(measured[kind, callers] for kind in KINDS), strict=True)
        )
        for callers in size.callers
    }
    return figures


def main() -> None:
    """Print a line for each figure; with --json write them all to a file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--queries", type=int, default=200, help="a turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    before = machine()
    settings = EncoderSettings(model=given.model, threads=given.threads)
    figures = asyncio.run(run(settings, Size(given.queries, given.rounds, seed=given.seed)))
    tell({"machine": before, **figures}, given.json)


if __name__ == "__main__":
    main()
