"""The gate that every vector passes."""

import numpy as np
import pytest
from numpy.typing import NDArray

from embeddings.errors import InvalidVectors
from embeddings.vectors import require_unit_rows, unit_rows


def test_rows_are_scaled_to_one() -> None:
    """Rows of any length, 16-bit ones too, become float32 rows of length 1."""
    rows = unit_rows(np.array([[3.0, 4.0], [0.0, 1e-3]], dtype=np.float16), rows=2, dimension=2)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.0, 1.0]], atol=1e-6)


@pytest.mark.parametrize(
    "raw",
    [
        np.array([[np.nan, 1.0]]),
        np.array([[np.inf, 1.0]]),
        np.array([[0.0, 0.0]]),
        np.array([[1e-30, 0.0]]),
        np.array([[1.0, 0.0, 0.0]]),
        np.array([1.0, 0.0]),
        np.array([[1.0, 0.0], [0.0, 1.0]]),
        np.empty((0, 2)),
    ],
)
def test_what_is_no_vector_is_an_error(raw: NDArray[np.float64]) -> None:
    """C27: a non-finite, zero or wrong-dimension vector, or a wrong number of them, is never returned."""
    with pytest.raises(InvalidVectors):
        unit_rows(raw, rows=1, dimension=2)
    with pytest.raises(InvalidVectors):
        require_unit_rows(raw.astype(np.float32), count=1, dimension=2)


def test_an_unscaled_vector_does_not_pass() -> None:
    """A vector that is not of length 1 is no unit vector, whoever made it."""
    with pytest.raises(InvalidVectors):
        require_unit_rows(np.array([[3.0, 4.0]], dtype=np.float32), count=1, dimension=2)
