"""Where a text too long for one passage may be cut: between sentences or words, never inside a word."""

import re
from collections.abc import Iterator
from itertools import pairwise

from semantic_text_splitter import TextSplitter

from service.adapters.extract.token_estimate import estimate_tokens

# Scripts written without spaces, and their punctuation: there the splitter's own word boundaries hold.
# Fullwidth letters and digits (FF10-FF19, FF21-FF3A, FF41-FF5A) make words like their narrow forms.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u2e80-\u312f\u31a0-\u9fff\uf900-\ufaff\ufe30-\ufe4f"
    "\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff9f\U00020000-\U0003ffff"
)
WORD = re.compile(rf"[^\s{_UNSPACED}]+")
_IN_WORD = re.compile(rf"[^\s{_UNSPACED}]{{2}}")

# A newline inside a hard-wrapped sentence, seen by a long line before and a small letter after. The
# splitter ranks every newline above a sentence's end, so it is shown a space there instead.
_SOFT_WRAP = re.compile(r"\n(?<=[^\n]{40}[\w,;]\n)(?=[a-zß-öø-ÿа-яά-ώ])")
_FENCES = ("```", "~~~")

# The splitter takes quadratic time on text without sentence ends; a window bounds it. The last part of a
# window is cut again with the next one, so a window's edge is never seen in the passages.
_WINDOW_CHARS = 6_000

# Aim a little under the target, as density varies within a text: most parts then fit at once.
_FILL = 0.9
_SLACK = 1.1


def cut(text: str, target: int, hard: int) -> Iterator[tuple[str, int]]:
    """Parts of `text`, which join to it exactly, each with its estimated tokens: at most `target`.

    Only a part that is one single word may have more, up to `hard`; a word beyond that is cut.
    """
    start = 0
    while start < len(text):
        end = _window_end(text, start, hard)
        parts = list(_cut_window(text[start:end], target, hard))
        if end < len(text) and len(parts) > 1:
            parts.pop()
        yield from parts
        start += sum(len(part) for part, _ in parts)


def _window_end(text: str, start: int, hard: int) -> int:
    end = start + _WINDOW_CHARS
    if end >= len(text):
        return len(text)
    before_word = _word_start(text, end, start, hard)
    return before_word if before_word > start else end


def _cut_window(text: str, target: int, hard: int) -> Iterator[tuple[str, int]]:
    tokens = estimate_tokens(text)
    if tokens <= target or (tokens <= hard and WORD.fullmatch(text)):
        yield text, tokens
        return
    for start, end in pairwise([0, *_cuts(text, tokens, target, hard), len(text)]):
        yield from _cut_window(text[start:end], target, hard)


def _cuts(text: str, tokens: int, target: int, hard: int) -> list[int]:
    """At least one place to cut `text`, ascending, none of them at its ends."""
    capacity = _capacity(len(text), tokens, target)
    found = _boundaries(text, capacity)
    between_words = sorted({_word_start(text, cut, 0, hard) for cut in found} - {0})
    if between_words:
        return between_words
    first_word = WORD.match(text)
    if first_word is not None and first_word.end() < len(text):
        return [first_word.end()]
    return found or list(range(capacity, len(text), capacity))


def _capacity(length: int, tokens: int, target: int) -> int:
    """Characters a part should have so that parts are of about equal size and fit the target."""
    full = target * _FILL
    parts = -(-tokens // full)
    return max(1, int(min(length * full / tokens, length / parts * _SLACK, length - 1)))


def _boundaries(text: str, capacity: int) -> list[int]:
    """The splitter's cuts: the highest of paragraph, line, sentence, word and grapheme that fits."""
    shown = text if text.lstrip().startswith(_FENCES) else _SOFT_WRAP.sub(" ", text)
    splitter = TextSplitter(capacity, trim=False)
    return [start for start, _ in splitter.chunk_indices(shown)][1:]


def _word_start(text: str, position: int, lowest: int, hard: int) -> int:
    """`position` moved back to the start of the word it falls into, unless that word is over `hard`."""
    longest = hard * 7  # no word of more characters is estimated at `hard` tokens or fewer
    start = position
    while start > lowest and position - start <= longest and _IN_WORD.match(text, start - 1):
        start -= 1
    return start if position - start <= longest else position
