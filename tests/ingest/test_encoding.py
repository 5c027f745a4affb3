"""Poison and illness are told apart, whatever the batch."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.core.embedding_text import text_hash
from service.ingest.encoding import KNOWN_GOOD, STRIKES, Encoded, PassageEncoding, Refusal
from service.model import ContentType, ItemId, Workspace
from service.ports.embedding import Embeddable, EncoderBusy, EncoderFailed, TextRefused

pytestmark = pytest.mark.anyio


@dataclass(slots=True)
class Model:
    """Encodes texts, but for those that it is told to choke on, or to fall ill with until it is restarted."""

    poison: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    deadly: set[str] = field(default_factory=set)
    passing: set[str] = field(default_factory=set)  # it fails on these once, then no more
    is_ill: bool = False
    is_busy: bool = False
    asked: list[tuple[str, ...]] = field(default_factory=list)

    async def __call__(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """A row a text."""
        self.asked.append(tuple(texts))
        if self.is_busy:
            raise EncoderBusy("too many wait")
        self.is_ill = self.is_ill or any(text in self.deadly for text in texts)
        once = self.passing.intersection(texts)
        self.passing -= once
        if self.is_ill or once or any(text in self.poison for text in texts):
            raise EncoderFailed("told to fail")
        if any(text in self.refused for text in texts):
            raise TextRefused("told to refuse")
        return [np.ones((1, 4), np.float32) for _ in texts]


def passage(text: str) -> Embeddable:
    """A passage that says no more than its text."""
    return Embeddable(
        1,
        Workspace("w"),
        ItemId(text),
        0,
        ContentType.TECH_DOC,
        live=True,
        text=text,
        text_hash=text_hash(text),
    )


@dataclass(slots=True)
class Outcome:
    """What became of the texts of a call, or of several."""

    encoded: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)

    async def of(self, encoding: PassageEncoding, model: Model, texts: Sequence[str]) -> None:
        """Encode; what came before an error is kept."""
        names = {text_hash(text): text for text in texts}
        async for result in encoding.results(model, [passage(text) for text in texts]):
            match result:
                case Encoded(vectors):
                    self.encoded |= {names[key] for key in vectors}
                case Refusal(one):
                    self.refused.append(one.text)


async def outcome(model: Model, *texts: str) -> Outcome:
    """Of one call with a fresh memory."""
    made = Outcome()
    await made.of(PassageEncoding(), model, texts)
    return made


@settings(deadline=None)
@given(st.lists(st.sampled_from("wpr"), min_size=1, max_size=20))
async def test_exactly_the_poisonous_are_refused(kinds: list[str]) -> None:
    """C27: whichever texts of a batch cannot be encoded, they alone are refused, and each other is encoded."""
    texts = {f"{kind}{number}": kind for number, kind in enumerate(kinds)}
    model = Model(
        poison={text for text, kind in texts.items() if kind == "p"},
        refused={text for text, kind in texts.items() if kind == "r"},
    )
    found = await outcome(model, *texts)
    assert sorted(found.refused) == sorted(model.poison | model.refused)
    assert found.encoded == texts.keys() - model.poison - model.refused


@pytest.mark.parametrize("texts", [("one",), ("one", "two"), tuple(map(str, range(64)))])
async def test_an_ill_encoder_is_held_against_nobody(texts: tuple[str, ...]) -> None:
    """C27: while nothing can be encoded the error is raised after two calls, however many texts there are."""
    model = Model(is_ill=True)
    with pytest.raises(EncoderFailed):
        await outcome(model, *texts)
    assert model.asked == [texts, KNOWN_GOOD]


async def test_a_refused_text_says_nothing_of_the_encoder() -> None:
    """C27: where the encoder says itself that it is the text, no other text is asked for its opinion."""
    model = Model(refused={"b"})
    found = await outcome(model, "a", "b")
    assert (found.encoded, found.refused) == ({"a"}, ["b"])
    assert KNOWN_GOOD not in model.asked


async def test_a_busy_encoder_says_nothing_of_a_text() -> None:
    """C27: a full queue refuses no passage."""
    with pytest.raises(EncoderBusy):
        await outcome(Model(is_busy=True), "a")


async def test_a_passing_failure_refuses_nobody() -> None:
    """C27: a text that fails once with an encoder that is well gets another try."""
    found = await outcome(Model(passing={"a"}), "a")
    assert (found.encoded, found.refused) == ({"a"}, [])


@pytest.mark.parametrize("texts", [("deadly",), ("a", "b", "deadly", "c")])
async def test_a_text_that_makes_the_encoder_ill_is_found(texts: tuple[str, ...]) -> None:
    """C27: a text that hangs the encoder each time is refused in the end, and none of its company ever is."""
    model, encoding, found = Model(deadly={"deadly"}), PassageEncoding(), Outcome()
    for _ in range(STRIKES + 1):
        model.is_ill = False  # as when it was loaded again
        with suppress(EncoderFailed):
            left = [text for text in texts if text not in found.encoded and text not in found.refused]
            await found.of(encoding, model, left)
    assert found.refused == ["deadly"]
    assert found.encoded == set(texts) - {"deadly"}


async def test_a_long_illness_refuses_nobody() -> None:
    """C27: texts in hand when the encoder fell ill are not blamed for its staying ill."""
    model, encoding, found = Model(is_ill=True), PassageEncoding(), Outcome()
    for _ in range(3 * STRIKES):
        with pytest.raises(EncoderFailed):
            await found.of(encoding, model, ["a", "b"])
    model.is_ill = False
    await found.of(encoding, model, ["a", "b"])
    assert (found.encoded, found.refused) == ({"a", "b"}, [])
