"""The pages' small parts: marks, visible text, commands, links and words."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.rollout import FlagKind, FlagState
from service.core.scoring import MAX_TERMS
from service.core.tokenize import QueryTerm, count_term, query_terms, stored_tokens
from service.search.degradation import Reason
from service.search.request import ArmState, LexicalArm, VectorArm
from service.surfaces.http.pages.citing import is_web_link
from service.surfaces.http.pages.commands import shell_word
from service.surfaces.http.pages.marking import Marker, ranked_terms
from service.surfaces.http.pages.sign_in import next_of
from service.surfaces.http.pages.visible import visible
from service.surfaces.http.pages.words import flag_told, lexical_told, reason_told, vector_told


def marked(query: str, text: str) -> list[str]:
    """The stretches of a text that a query marks."""
    return [one.text for one in Marker(query_terms(query)).segments(text) if one.marked]


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("sill", "The SILL, the sills, a windowsill.", ["SILL"]),
        ("cafe", "CAFÉ Café cafe", ["CAFÉ", "Café", "cafe"]),
        ("SL45", "SL45 and SL4500", ["SL45"]),
        ("NW-SL45/2", "NW-SL45/2 but not NW-SL45/25 nor NW", ["NW-SL45/2", "NW"]),
        ("AB", "AB-12 and AB", ["AB", "AB"]),
        ("floor", "a floor-supported wall", ["floor"]),
        ("floor-supported", "a floor-supported wall", ["floor-supported"]),
        ("玻璃", "折叠玻璃墙", ["玻璃"]),
        ("sill", "", []),
        ("", "sill", []),
        ("don't", "we don't know", ["don't"]),
    ],
)
def test_marks(query: str, text: str, expected: list[str]) -> None:
    """C18: a text is marked where the project's own tokens match, and nowhere else."""
    assert marked(query, text) == expected


@given(st.text(), st.text())
def test_marks_lose_nothing(query: str, text: str) -> None:
    """U21: the segments of a text are the text, whatever is marked."""
    segments = Marker(query_terms(query)).segments(text)
    assert "".join(one.text for one in segments) == text
    assert all(one.text for one in segments)


@given(st.text(alphabet="ab1-./' é", max_size=40), st.text(alphabet="ab1-./'é", max_size=12))
def test_marks_are_matches(query: str, word: str) -> None:
    """C18: what is looked for of a word is what the matching rule counts in it, term by term."""
    terms = query_terms(query)
    stored, _ = stored_tokens(word)
    assert Marker(terms)._wanted(word) == {term.text for term in terms if count_term(stored, term)}


def test_terms_of_a_long_query() -> None:
    """U20: all terms of a query that a ranking uses whole are marked; of a longer one those that hits name."""
    few = [QueryTerm(f"t{number}") for number in range(MAX_TERMS)]
    assert ranked_terms(few, ()) == tuple(few)
    assert ranked_terms([QueryTerm(f"t{number}") for number in range(9_000)], ()) == ()


@given(st.text())
def test_visible(text: str) -> None:
    """U21: visible text holds no control character but tab and line feed, and no direction override."""
    shown = visible(text)
    assert not set(shown) & {
        chr(code) for code in (*range(9), *range(11, 32), *range(127, 160), 0x202E, 0x2066)
    }
    assert visible(shown) == shown


@given(st.text(alphabet=st.characters(exclude_characters="\x00", exclude_categories=["Cs"])))
def test_shell_words_are_safe(text: str) -> None:
    """U5: a word of a shown command is printable, and is that word wherever it can be quoted plainly."""
    word = shell_word(text)
    assert word.isprintable()
    if text.isprintable():
        assert shlex.split(word) == [text]


def test_shell_words_in_a_shell() -> None:
    """U5: a shell reads what was written out as the characters that it stands for."""
    hostile = "it's \\ a\n\x1b[31m\u202e$(id)`id`"
    ran = subprocess.run(["bash", "-c", f"printf %s {shell_word(hostile)}"], capture_output=True, check=True)
    assert ran.stdout.decode() == hostile


@pytest.mark.parametrize(
    ("url", "followed"),
    [
        ("https://example.com/a?b=c", True),
        ("HTTP://EXAMPLE.COM", True),
        ("javascript:alert(1)", False),
        ("JaVaScRiPt:alert(1)//https://x", False),
        ("data:text/html,x", False),
        ("//example.com", False),
        ("/v1/items", False),
        ("https://", False),
        ("https://exa\tmple.com", False),
        ("https://example.com/\u202e", False),
        ("https:\\\\example.com", False),
        ("https://[bad", False),
    ],
)
def test_web_links(url: str, *, followed: bool) -> None:
    """C10: only http and https with a host can be followed, and only where all of it can be seen."""
    assert is_web_link(url) is followed


@given(st.text())
def test_next_stays_here(wanted: str) -> None:
    """U17: where to go next is a path of this site, whatever was asked for."""
    path = next_of(wanted)
    assert path.startswith("/")
    assert not path.startswith(("//", "/\\"))
    assert path.isprintable()


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_words(reason: Reason) -> None:
    """U21: every reason why the vector arm did not run is told in a sentence."""
    told = vector_told(VectorArm(ArmState.DEGRADED, reason.value))
    assert told.meaning.endswith(".")
    assert "_" not in told.meaning.replace("CITEWELL_", "")
    assert reason_told(reason.value) == told.meaning


def test_other_states_have_words() -> None:
    """U21: so are the states of both arms, of the flag, and a reason of another version."""
    assert vector_told(VectorArm(ArmState.RAN, "ran")).mood == "good"
    assert "later" in vector_told(VectorArm(ArmState.DEGRADED, "later")).meaning
    assert lexical_told(LexicalArm(ArmState.RAN, "scan")).mood == "bad"
    assert lexical_told(LexicalArm(ArmState.RAN, "index")).mood == "good"
    assert {flag_told(FlagState(kind, 12.5)) for kind in FlagKind}.__len__() == len(FlagKind)
