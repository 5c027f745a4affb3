"""The sentence over two orders that stand side by side."""

import pytest

from service.surfaces.http.pages.comparing import Comparison


@pytest.mark.parametrize(
    ("shared", "moved", "told"),
    [
        (0, 0, "No passage is on both pages."),
        (1, 0, "1 passage is on both pages, in the same place."),
        (1, 1, "1 passage is on both pages, in another place."),
        (6, 0, "6 passages are on both pages, each in the same place."),
        (6, 1, "6 passages are on both pages; 1 of them is in another place."),
        (6, 4, "6 passages are on both pages; 4 of them are in another place."),
    ],
)
def test_how_two_pages_differ(shared: int, moved: int, told: str) -> None:
    """U21: the sentence counts as a person does, and only of passages on both pages it says that they moved."""
    assert Comparison((), (), shared, moved, is_fused=True).told == told
