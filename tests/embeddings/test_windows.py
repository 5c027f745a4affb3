"""Windows over real tokenizers of three kinds."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from embeddings.errors import UnsuitableModel
from embeddings.windows import Offsets, Window, Windower, padded_batches, padded_length
from tests.embeddings.hash_encoder import word_offsets
from tests.embeddings.tiny_model import SENTENCES, byte_level, unigram, wordpiece

TOKENIZERS = {"wordpiece": wordpiece(), "byte-level": byte_level(), "unigram": unigram()}
_WORDS = [word for sentence in SENTENCES for word in sentence.split()]
_PIECES = st.one_of(
    st.sampled_from(_WORDS),
    st.text(max_size=12),
    st.sampled_from(["\n\n", "🙂🙂", "防水等级", "é", "\0", "…"]),
)
TEXTS = st.lists(_PIECES, max_size=80).flatmap(
    lambda pieces: st.sampled_from(["", " ", " \t"]).map(lambda joint: joint.join(pieces))
)


def windower(tokenizer: Tokenizer, capacity: int, overlap: int) -> Windower:
    """A windower over a tokenizer."""

    def offsets(text: str) -> Offsets:
        spans: Offsets = tokenizer.encode(text, add_special_tokens=False).offsets
        return spans

    return Windower(offsets, capacity, overlap)


def uncovered(text: str, windows: tuple[Window, ...]) -> str:
    """The characters no window has."""
    seen = bytearray(len(text))
    for window in windows:
        seen[window.start : window.end] = b"\1" * (window.end - window.start)
    return "".join(character for character, covered in zip(text, seen, strict=True) if not covered)


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(text=TEXTS, capacity=st.integers(8, 40), share=st.integers(0, 2))
@settings(max_examples=150, deadline=None)
def test_windows_cover_every_character_and_fit(kind: str, text: str, capacity: int, share: int) -> None:
    """C25: whatever the text and the tokenizer, no character is left out and every window fits."""
    tokenizer = TOKENIZERS[kind]
    cutter = windower(tokenizer, capacity, capacity * share // 4)
    windows = cutter.split(text.encode("utf-8", "ignore").decode())
    text = text.encode("utf-8", "ignore").decode()
    if not windows:
        assert not tokenizer.encode(text, add_special_tokens=False).tokens
        return
    assert uncovered(text, windows) == ""
    for window in windows:
        assert window.text == text[window.start : window.end]
        count = len(tokenizer.encode(window.text, add_special_tokens=False).tokens)
        assert count == window.tokens <= capacity
    starts = [window.start for window in windows]
    assert starts == sorted(set(starts))


def test_a_text_within_the_limit_is_one_window() -> None:
    """A text that fits is its own window, white space and all; the overhead is counted on top."""
    text = " one two three "
    assert Windower(word_offsets, 3, 1, overhead=2).split(text) == (Window(text, 0, len(text), 5),)


def test_neighbours_overlap_and_are_of_like_size() -> None:
    """Neighbouring windows share the overlap, and the last is no mere tail."""
    text = " ".join(f"w{number}" for number in range(101))
    windows = Windower(word_offsets, 50, 10).split(text)
    words = [window.text.split() for window in windows]
    assert len(windows) == 3
    assert min(map(len, words)) >= 35
    for left, right in pairwise(words):
        assert left[-10:] == right[:10]


def test_cuts_fall_between_words() -> None:
    """A cut moves back to the start of a word, so that no word is torn without need."""
    text = " ".join(SENTENCES * 4)
    for window in windower(TOKENIZERS["wordpiece"], 32, 8).split(text)[:-1]:
        assert text[window.end - 1].isspace()


def test_no_limit_is_one_window() -> None:
    """A model without a token limit reads any text whole."""
    text = "word " * 5000
    assert len(Windower(word_offsets, None, 0).split(text)) == 1


def test_a_tokenizer_that_contradicts_itself_is_refused() -> None:
    """A tokenizer that makes more of a part than of the whole is an error, never a loop or a lost text."""

    def offsets(text: str) -> Offsets:
        return [(0, len(text))] * 20 if len(text) < 50 else word_offsets(text)

    with pytest.raises(UnsuitableModel):
        Windower(offsets, 8, 2).split("word " * 30)


@given(sizes=st.lists(st.integers(1, 600), max_size=40), budget=st.integers(1, 1024))
def test_batches_hold_everything_once_within_the_budget(sizes: list[int], budget: int) -> None:
    """Every window is in one batch; a batch has one padded length, and one of several keeps the budget."""
    batches = list(padded_batches(sizes, budget))
    assert sorted(index for batch in batches for index in batch) == list(range(len(sizes)))
    for batch in batches:
        (length,) = {padded_length(sizes[index]) for index in batch}
        assert len(batch) == 1 or length * len(batch) <= budget
