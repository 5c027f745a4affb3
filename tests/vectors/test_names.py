"""How collections and points are named."""

from hypothesis import given
from hypothesis import strategies as st

from service.model import ItemId, Workspace
from service.ports.vectors import PointKey, collection_name, point_id

text = st.text(st.characters(codec="utf-8"), max_size=12)
Named = tuple[str, str, int, int]
parts = st.tuples(text, text, st.integers(0, 99), st.integers(0, 9))


def identity(named: Named) -> str:
    """The id of these four parts."""
    workspace, item, seq, window = named
    return str(point_id(Workspace(workspace), PointKey(ItemId(item), seq, window)))


@given(parts, parts)
def test_equal_points_and_only_they_have_equal_ids(one: Named, two: Named) -> None:
    """C24: the id is a function of all four parts, and no two different points share one."""
    assert (identity(one) == identity(two)) == (one == two)


def test_parts_cannot_run_into_each_other() -> None:
    """Moving characters from one part to the next gives another id."""
    spellings = [
        ("ab", "c", 1, 2),
        ("a", "bc", 1, 2),
        ("1:", "a", 1, 2),
        ("1:a", "", 1, 2),
        ("", "1:a", 1, 2),
    ]
    spellings += [("a", "b#1", 2, 3), ("a", "b", 12, 3), ("a", "b", 1, 23), ("a", "b#1#2", 3, 4)]
    assert len({identity(spelling) for spelling in spellings}) == len(spellings)


def test_ids_never_change() -> None:
    """Ids are kept in stores that live for years: this one is written down."""
    assert identity(("default", "item-1", 3, 0)) == "0ab9dea3-f8ed-5a28-853a-a7231d433773"


@given(text, text, st.integers(1, 9), st.integers(1, 9))
def test_collections_of_other_models_have_other_names(one: str, two: str, first: int, second: int) -> None:
    """C24: the name follows from the fingerprint and the generation, whatever they are."""
    same = (one, first) == (two, second)
    assert (collection_name(one, first) == collection_name(two, second)) == same
