"""Telling texts that cannot be encoded from an encoder that cannot encode.

Neither may pass for the other: a poisonous text must not stop the rest, and while the encoder is ill no
passage is to blame. So when a text fails, a sentence is encoded that every model can read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from service.ports.embedding import Embeddable, EncoderBusy, EncoderFailed, TextRefused

if TYPE_CHECKING:
    from service.ports.vectors import Float32Array

# Short and long: an encoder that lacks memory still manages a word.
KNOWN_GOOD = (
    "How do I replace the bottom roller of a sliding door?",
    " ".join(
        (
            "Before the frame is fixed, check that the opening is plumb, level and square, that the floor",
            "carries the panels without settling, and that the sill pan drains to the outside. The threshold is",
            "rated for wind-driven rain up to 580 Pa. Unopened items may be returned within 30 days.",
        )
    ),
)
STRIKES = 3  # so often a text may be in hand when the encoder falls ill


@dataclass(frozen=True, slots=True)
class Refusal:
    """A passage whose text the encoder cannot encode, although it can encode others."""

    passage: Embeddable
    reason: str


@dataclass(frozen=True, slots=True)
class Encoded:
    """By text hash the windows' vectors, (windows, dimension) each."""

    vectors: Mapping[str, Float32Array]


Call = Callable[[Sequence[str]], Awaitable["Sequence[Float32Array]"]]


@dataclass(slots=True)
class PassageEncoding:
    """Remembers the texts that were in hand when the encoder fell ill: they are tried alone from then on.

    A text that makes the encoder ill every time, by hanging it or by breaking it, is found in that way too.
    """

    _strikes: Counter[str] = field(default_factory=Counter)

    async def results(self, call: Call, passages: Sequence[Embeddable]) -> AsyncIterator[Encoded | Refusal]:
        """What becomes of each passage, as soon as it is known. `call` encodes texts, as an Encoder does.

        Raises:
            EncoderFailed: the encoder is ill; of the passages that are left nothing is known.
        """
        usual = [passage for passage in passages if passage.text_hash not in self._strikes]
        suspects = [passage for passage in passages if passage.text_hash in self._strikes]
        if usual:
            async for result in self._tried(call, usual):
                yield result
        for suspect in suspects:
            await call(KNOWN_GOOD)  # what is ill already is held against none of them
            async for result in self._tried(call, [suspect]):
                yield result

    async def _tried(self, call: Call, passages: Sequence[Embeddable]) -> AsyncIterator[Encoded | Refusal]:
        """A batch; when texts of it are to blame its halves, down to each of those texts alone."""
        try:
            rows = await call([passage.text for passage in passages])
        except EncoderBusy:
            raise
        except EncoderFailed as error:
            async for result in self._failed(call, passages, error):
                yield result
        else:
            yield self._well(passages, rows)

    async def _failed(
        self, call: Call, passages: Sequence[Embeddable], error: EncoderFailed
    ) -> AsyncIterator[Encoded | Refusal]:
        if not isinstance(error, TextRefused) and not await _answers(call, KNOWN_GOOD):
            yield self._struck(passages, error)
        elif len(passages) == 1:
            yield await self._last_word(call, passages[0], error)
        else:
            middle = len(passages) // 2
            for half in (passages[:middle], passages[middle:]):
                async for result in self._tried(call, half):
                    yield result

    async def _last_word(self, call: Call, passage: Embeddable, error: EncoderFailed) -> Encoded | Refusal:
        """On one text, from an encoder that is well: its failure may have been a passing one."""
        reason = str(error)
        if not isinstance(error, TextRefused):
            try:
                return self._well([passage], await call([passage.text]))
            except EncoderBusy:
                raise
            except EncoderFailed as again:
                reason = str(again)
        self._strikes.pop(passage.text_hash, None)
        return Refusal(passage, reason)

    def _well(self, passages: Sequence[Embeddable], rows: Sequence[Float32Array]) -> Encoded:
        for passage in passages:
            self._strikes.pop(passage.text_hash, None)
        return Encoded({one.text_hash: windows for one, windows in zip(passages, rows, strict=True)})

    def _struck(self, passages: Sequence[Embeddable], error: EncoderFailed) -> Refusal:
        """The encoder is ill. Raises the error, but for a text that has been alone with it often enough."""
        hashes = [passage.text_hash for passage in passages]
        self._strikes.update(hashes)
        if len(hashes) > 1 or self._strikes[hashes[0]] < STRIKES:
            raise error
        del self._strikes[hashes[0]]
        return Refusal(passages[0], f"the encoder fell ill with it {STRIKES} times: {error}")


async def _answers(call: Call, texts: Sequence[str]) -> bool:
    """Whether these can be encoded now. Raises EncoderBusy: then nothing can be told."""
    try:
        await call(texts)
    except EncoderBusy:
        raise
    except EncoderFailed:
        return False
    return True
