"""The vector worker end to end against the bare encoder on the same texts, and a second sync of the same text.

    python -m eval.bench.sync --model minilm [--passages 600] [--rounds 3] [--json FILE]

A round stores new passages, lets the worker follow (change log, cache, Qdrant Edge) and has the encoder alone
encode exactly the texts that the worker embedded, in the worker's batches; who goes first changes every round.
Beside both stands the library's own `encode` in batches of 32. Then a new collection is built of the same text:
nothing may be encoded.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from embeddings.encoder import Encoder, encode_passages
from embeddings.encoder_service import EncoderService
from embeddings.encoder_settings import EncoderSettings
from embeddings.loader import load_encoder
from embeddings.sentence_transformer import SentenceTransformerEncoder
from embeddings.torch_threads import torch_threads
from eval.bench.encoder import texts
from eval.bench.figures import Figures, machine, tell
from eval.bench.ready import House, edge, follow, opened
from service.adapters.encoder import ServiceEncoder
from service.core.embedding_text import embedding_text
from service.ingest.vectors import StepOutcome, VectorWorker, new_collection
from service.model import DEFAULT_WORKSPACE, Capture, ContentType, ItemId, PassageText, Source, SourceType
from service.ports.embedding import CollectionRole

LOAD_S = 300.0
ITEM = 5  # passages
LIBRARY_BATCH = 32
EXACT_POINTS = 20_000


@dataclass(frozen=True, slots=True)
class Size:
    """`passages` a round, a multiple of 5."""

    passages: int
    rounds: int
    seed: int = 7


@dataclass(frozen=True, slots=True)
class Round:
    """Passages a second of each, on the same texts."""

    worker: float
    encoder: float
    library: float


def made(size: Size) -> list[list[Capture]]:
    """Each round's captures; no text occurs twice."""
    prose = texts(0, size.passages * size.rounds, size.seed).passages
    items = [
        Capture(
            title=f"Manual {first // ITEM}",
            content_type=ContentType.BLOG,
            source=Source(SourceType.UPLOAD, None, f"manual-{first // ITEM}"),
            version="1",
            passages=tuple(
                PassageText(seq, f"Part {seq}", text) for seq, text in enumerate(prose[first : first + ITEM])
            ),
            item_id=ItemId(f"m{first // ITEM:07d}"),
        )
        for first in range(0, len(prose), ITEM)
    ]
    share = len(items) // size.rounds
    return [items[share * number : share * (number + 1)] for number in range(size.rounds)]


def embedded(captures: Sequence[Capture]) -> list[str]:
    """The texts that the worker embeds."""
    return [
        embedding_text(capture.title, one.heading, one.text)
        for capture in captures
        for one in capture.passages
    ]


def alone(encoder: Encoder, passages: Sequence[str], batch: int) -> None:
    """The encoder by itself: the worker's batches, shortest texts first, as the worker sorts them."""
    ordered = sorted(passages, key=len)
    for start in range(0, len(ordered), batch):
        encode_passages(encoder, ordered[start : start + batch])


def library(encoder: Encoder, passages: Sequence[str]) -> None:
    """Sentence-transformers' own way, where it is the backend."""
    if isinstance(encoder, SentenceTransformerEncoder):
        with torch_threads(encoder.runner.threads):
            encoder.runner.model.encode(list(passages), batch_size=LIBRARY_BATCH, show_progress_bar=False)


async def one_round(
    house: House, worker: VectorWorker, encoder: Encoder, captures: Sequence[Capture], number: int
) -> Round:
    """All three on the same texts; the first one changes with the number."""
    await house.app.capturing.capture_batch(DEFAULT_WORKSPACE, captures)
    passages = embedded(captures)

    async def by_itself(call: Callable[[], None]) -> float:
        began = time.perf_counter()
        await asyncio.to_thread(call)
        return len(passages) / (time.perf_counter() - began)

    async def by_worker() -> float:
        began = time.perf_counter()
        await follow(worker)
        return len(passages) / (time.perf_counter() - began)

    async def by_encoder() -> float:
        return await by_itself(lambda: alone(encoder, passages, worker.settings.batch))

    async def by_library() -> float:
        return await by_itself(lambda: library(encoder, passages))

    ways = {"worker": by_worker, "encoder": by_encoder, "library": by_library}
    names = list(ways)
    first = number % len(names)
    rates = {name: await ways[name]() for name in [*names[first:], *names[:first]]}
    return Round(**rates)


async def again(worker: VectorWorker, passages: int) -> Figures:
    """Build a second collection of the same text."""
    before = worker.counters.encoded
    second = new_collection(worker.encoder, worker.model, generation=2, role=CollectionRole.BUILDING)
    await worker.ledger.register(second)
    began = time.perf_counter()
    while await worker.follow(second) is StepOutcome.WORKED:
        pass
    spent = time.perf_counter() - began
    points = await worker.index.count(second.name, None, time.monotonic() + LOAD_S)
    encoded = worker.counters.encoded - before
    return {"texts encoded": encoded, "points": points, "passages/s": passages / spent}


async def run(settings: EncoderSettings, size: Size, folder: Path) -> dict[str, Figures]:
    """The whole benchmark."""
    encoder = load_encoder(settings)
    service = EncoderService.of(settings)
    service.start()
    try:
        await service.wait_ready(LOAD_S)
        async with opened(folder) as house, edge(folder, EXACT_POINTS) as index:
            worker = VectorWorker(house.ledger, index, ServiceEncoder(service), settings.model)
            await follow(worker)  # opens the collection
            await service.encode_passages(["to warm up"])
            alone(encoder, ["to warm up"], 1)
            rounds = [
                await one_round(house, worker, encoder, captures, number)
                for number, captures in enumerate(made(size))
            ]
            encoded: Figures = {"texts": worker.counters.encoded, "points": worker.counters.upserted}
            repeated = await again(worker, size.passages * size.rounds)
    finally:
        await service.close()
    return summary(rounds) | {"encoded in all": encoded, "second collection, same text": repeated}


def summary(rounds: Sequence[Round]) -> dict[str, Figures]:
    """The median of the rounds, with the least and the most."""

    def of(values: Sequence[float]) -> Figures:
        return {"median": statistics.median(values), "least": min(values), "most": max(values)}

    return {
        "worker, passages/s": of([each.worker for each in rounds]),
        "encoder alone, passages/s": of([each.encoder for each in rounds]),
        "library alone, passages/s": of([each.library for each in rounds]),
        "worker / encoder": of([each.worker / each.encoder for each in rounds]),
        "worker / library": of([each.worker / each.library for each in rounds]),
    }


def main() -> None:
    """Print a line for each figure; with --json write them all to a file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--passages", type=int, default=600, help="a round; a multiple of 5")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    before = machine()
    settings = EncoderSettings(model=given.model, threads=given.threads)
    with tempfile.TemporaryDirectory(prefix="citewell-bench-") as folder:
        figures = asyncio.run(run(settings, Size(given.passages, given.rounds, given.seed), Path(folder)))
    tell({"machine": before, **figures}, given.json)


if __name__ == "__main__":
    main()
