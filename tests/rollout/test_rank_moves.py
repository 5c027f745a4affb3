"""The arithmetic of a comparison, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.ports.shadow import RankMove
from service.search.rank_moves import MoveKind, kind_of, overlap, rank_moves
from service.search.shadow_report import nearest_rank

tops = st.lists(st.sampled_from("abcdefghijkl"), max_size=8, unique=True)


@pytest.mark.parametrize(
    ("lexical", "hybrid", "share"),
    [
        ("abcdefgh", "abcdefgh", 1.0),
        ("abcdefgh", "hgfedcba", 1.0),
        ("abcdefgh", "abcdefgx", 7 / 8),
        ("abcdefgh", "ijklmnop", 0.0),
        ("abc", "abcdefgh", 3 / 8),  # the hybrid finds more
        ("ab", "bc", 1 / 2),
        ("", "abcdefgh", 0.0),
        ("", "", 1.0),
    ],
)
def test_overlap_by_hand(lexical: str, hybrid: str, share: float) -> None:
    """E12: overlap is the shared part of the longer top, and 1 where nobody found anything."""
    assert overlap(list(lexical), list(hybrid)) == share


def test_moves_by_hand() -> None:
    """E13: of abcd and dabe: d goes up from 4 to 1, a and b down by one, e enters, c leaves."""
    assert rank_moves(list("abcd"), list("dabe")) == (
        RankMove("d", 4, 1),
        RankMove("a", 1, 2),
        RankMove("b", 2, 3),
        RankMove("e", None, 4),
        RankMove("c", 3, None),
    )


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (None, 1, MoveKind.ENTERED),
        (8, None, MoveKind.LEFT),
        (4, 1, MoveKind.UP_FAR),
        (3, 1, MoveKind.UP),
        (1, 2, MoveKind.DOWN),
        (1, 3, MoveKind.DOWN),
        (1, 4, MoveKind.DOWN_FAR),
    ],
)
def test_kinds_by_hand(before: int | None, after: int | None, kind: MoveKind) -> None:
    """E13: a move of three places or more is far."""
    assert kind_of(RankMove("p", before, after)) is kind


@given(tops, tops)
def test_a_comparison_adds_up(lexical: list[str], hybrid: list[str]) -> None:
    """E13: overlap is within 0 and 1, is symmetric, and no move is left exactly when the tops are equal."""
    moves = rank_moves(lexical, hybrid)
    kinds = [kind_of(move) for move in moves]
    assert 0.0 <= overlap(lexical, hybrid) <= 1.0
    assert overlap(lexical, hybrid) == overlap(hybrid, lexical)
    assert (moves == ()) == (lexical == hybrid)
    assert len(lexical) - kinds.count(MoveKind.LEFT) == len(hybrid) - kinds.count(MoveKind.ENTERED)


def test_percentiles_by_hand() -> None:
    """E13: of 1 to 20 the nearest rank of 50 % is 10 and of 95 % is 19; of one value it is that value."""
    assert nearest_rank(list(range(1, 21)), 0.5) == 10
    assert nearest_rank(list(range(1, 21)), 0.95) == 19
    assert nearest_rank([7.0], 0.95) == 7.0
