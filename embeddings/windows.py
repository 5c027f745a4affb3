"""Long texts cut into overlapping windows that a model can read whole. Pure, given a tokenizer."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from embeddings.errors import UnsuitableModel

Offsets = Sequence[tuple[int, int]]
"""Character span of every token, in order, special tokens left out."""

PADDING = 8
"""Batches are padded to a multiple of so many tokens: few lengths, so that texts still find company."""

_SNAP_SHARE = 4  # a cut may move back by a quarter of a window to fall between words


@dataclass(frozen=True, slots=True)
class Window:
    """`text[start:end]` of its passage; `tokens` counts what the model reads, prompt and specials included."""

    text: str
    start: int
    end: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Windower:
    """Cuts texts by a model's own tokens.

    `capacity` is the tokens of text one window may hold, `overhead` the prompt and special tokens that
    come on top, `overlap` the tokens neighbours share. No capacity means no limit.
    """

    offsets: Callable[[str], Offsets]
    capacity: int | None
    overlap: int
    overhead: int = 0

    def split(self, text: str) -> tuple[Window, ...]:
        """Windows in text order whose spans together cover every character; none for a text without tokens.

        Raises:
            UnsuitableModel: the tokenizer reads a single token's text as more than a window of tokens.
        """
        spans = self.offsets(text)
        if not spans:
            return ()
        if self.capacity is None or len(spans) <= self.capacity:
            return (Window(text, 0, len(text), len(spans) + self.overhead),)
        return tuple(self._cut(text, spans, self.capacity))

    def _cut(self, text: str, spans: Offsets, capacity: int) -> Iterator[Window]:
        total = len(spans)
        step = _even_step(total, capacity, self.overlap)
        start = 0
        while True:
            stop = total if total - start <= capacity else _cut_before(text, spans, start, start + step)
            window, stop = self._fit(text, spans, start, stop)
            yield window
            if stop >= total:
                return
            start = _next_start(spans, start, stop, self.overlap)

    def _fit(self, text: str, spans: Offsets, start: int, stop: int) -> tuple[Window, int]:
        """The window of tokens `[start, stop)`, shortened until it fits when tokenized by itself.

        A cut changes what tokenizers make of the words beside it, so the count is taken, not assumed.
        """
        capacity = self.capacity or len(spans)
        first = 0 if start == 0 else spans[start][0]
        while True:
            last = len(text) if stop >= len(spans) else spans[stop][0]
            piece = text[first:last]
            count = len(self.offsets(piece))
            if count <= capacity:
                return Window(piece, first, last, count + self.overhead), stop
            shorter = _clean_cut(spans, start, stop - (count - capacity))
            if shorter <= start or shorter >= stop:
                raise UnsuitableModel("the tokenizer does not read a part of a text as it reads the whole")
            stop = shorter


def padded_length(tokens: int) -> int:
    """Tokens a text takes in a batch: the next multiple of `PADDING`."""
    return -(-tokens // PADDING) * PADDING


def padded_batches(sizes: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices in groups of one padded length, longest first; a group's tokens stay within `budget`, or it is one.

    Every index is in one group. Equal lengths keep their order.
    """
    by_length = sorted(range(len(sizes)), key=lambda index: (-padded_length(sizes[index]), index))
    for length, group in groupby(by_length, key=lambda index: padded_length(sizes[index])):
        alike = list(group)
        most = max(1, budget // length)
        yield from (alike[at : at + most] for at in range(0, len(alike), most))


def _even_step(total: int, capacity: int, overlap: int) -> int:
    """Tokens per window when `total` is spread evenly, so that no window is a mere tail."""
    fresh = capacity - overlap
    count = -(-(total - overlap) // fresh)
    return min(capacity, -(-(total - overlap) // count) + overlap)


def _cut_before(text: str, spans: Offsets, start: int, stop: int) -> int:
    """The last token index up to `stop` that begins a word, else one that begins a character."""
    for cut in range(stop, stop - (stop - start) // _SNAP_SHARE, -1):
        if spans[cut][0] >= spans[cut - 1][1] and text[spans[cut][0] - 1].isspace():
            return cut
    cut = _clean_cut(spans, start, stop)
    return cut if cut > start else stop


def _clean_cut(spans: Offsets, start: int, stop: int) -> int:
    """The last token index up to `stop`, above `start`, whose first character no earlier token shares."""
    for cut in range(stop, start, -1):
        if spans[cut][0] >= spans[cut - 1][1]:
            return cut
    return start


def _next_start(spans: Offsets, start: int, stop: int, overlap: int) -> int:
    """Where the next window begins: `overlap` tokens back, on a whole character, always forward."""
    cut = _clean_cut(spans, start, max(stop - overlap, start + 1))
    return cut if cut > start else stop
