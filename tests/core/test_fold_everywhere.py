"""Folding, tried on every character there is."""

import sys
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.tokenize import fold, query_terms, tokenize

UNASSIGNED = frozenset({"Cn", "Co", "Cs"})
ALIKE = ("CJK UNIFIED", "HANGUL SYLLABLE", "TANGUT", "NUSHU", "KHITAN", "ANATOLIAN", "EGYPTIAN", "CUNEIFORM")


def characters() -> Iterator[str]:
    """Every assigned character; of the great blocks of letters without case or marks each hundredth."""
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if unicodedata.category(character) in UNASSIGNED:
            continue
        if code % 100 and unicodedata.name(character, "").startswith(ALIKE):
            continue
        yield character


def test_every_character_folds_once_and_anywhere() -> None:
    """C18: folding a character twice changes nothing, and what stands beside it does not matter."""
    for character in characters():
        folded = fold(character)
        assert fold(folded) == folded, hex(ord(character))
        assert fold(f"{character} é") == f"{folded} e", hex(ord(character))


def test_every_character_finds_itself_in_either_case() -> None:
    """C18: a word with any character in it is found by itself, in upper and in lower case."""
    for character in characters():
        word = f"a{character}b"
        tokens = tokenize(word)
        assert tokenize(word.upper()) == tokenize(word.lower()), hex(ord(character))
        assert all(term.standalone or term.text in tokens for term in query_terms(word)), hex(ord(character))


@pytest.mark.parametrize("digits", ["\U00010d40\U00010d41", "\U0001ccf0", "\u0665\U00010d49", "\U00011de0"])
def test_digits_newer_than_the_runtime(digits: str) -> None:
    """C18: a digit of a later Unicode than Python knows is a character like another, and finds itself."""
    assert fold(fold(digits)) == fold(digits)
    assert {term.text for term in query_terms(f"page {digits}")} <= set(tokenize(f"on page {digits} of it"))


@given(st.text(), st.text())
def test_texts_fold_apart_as_together(left: str, right: str) -> None:
    """C18: tokens of a text do not depend on the text before or after a blank."""
    assert tokenize(f"{left} \n {right}") == [*tokenize(left), *tokenize(right)]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_composed_and_decomposed_text_are_the_same(text: str) -> None:
    """C18: NFC and NFD spellings give the same tokens."""
    assert tokenize(unicodedata.normalize("NFC", text)) == tokenize(unicodedata.normalize("NFD", text))


def test_an_acute_accent_used_as_an_apostrophe() -> None:
    """C18: an acute accent by itself is an apostrophe; a backtick is a quotation mark, whatever else there is."""
    assert tokenize("don\u00b4t") == tokenize("don't") == tokenize("don\u2019t")
    assert tokenize("`a`b é")[:2] == tokenize("`a`b") == ["a", "b"]
