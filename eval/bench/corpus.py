"""A seeded synthetic corpus: Zipf-distributed words, uneven lengths, shared titles, part numbers."""

from collections.abc import Iterator

import numpy as np

from service.model import Capture, ContentType, ItemId, PassageText, Source, SourceType

VOCABULARY = 60_000
PASSAGES_PER_ITEM = 5


def word(number: int) -> str:
    """The `number`-th commonest word; every fiftieth looks like a part number."""
    return f"pn-{number:x}/2" if number % 50 == 49 else f"w{number:x}"


def captures(passages: int, seed: int) -> Iterator[Capture]:
    """Captures that hold `passages` passages of 20 to 180 words in all; the same for the same seed."""
    rng = np.random.default_rng(seed)
    words = np.array([word(n) for n in range(VOCABULARY)])
    for number in range(passages // PASSAGES_PER_ITEM):
        texts = tuple(
            PassageText(
                seq, " ".join(words[_zipf(rng, 4)]), " ".join(words[_zipf(rng, int(rng.integers(20, 180)))])
            )
            for seq in range(PASSAGES_PER_ITEM)
        )
        yield Capture(
            title=" ".join(words[_zipf(rng, 6)]),
            content_type=list(ContentType)[number % 4],
            source=Source(SourceType.UPLOAD, None, f"synthetic-{number}"),
            version="1",
            passages=texts,
            item_id=ItemId(f"s{number:07d}"),
        )


def queries(count: int, seed: int) -> list[str]:
    """Queries of 2 to 8 words drawn as the corpus draws its own."""
    rng = np.random.default_rng(seed + 1)
    words = [word(n) for n in range(VOCABULARY)]
    return [" ".join(words[n] for n in _zipf(rng, int(rng.integers(2, 9)))) for _ in range(count)]


def _zipf(rng: np.random.Generator, count: int) -> np.ndarray:
    """Word numbers with a log-uniform law, near Zipf's with exponent 1."""
    drawn: np.ndarray = np.minimum((VOCABULARY ** rng.random(count)).astype(int) - 1, VOCABULARY - 1)
    return drawn
