"""The one place where raw numbers of a model become unit vectors, or an error."""

import numpy as np
from numpy.typing import NDArray

from embeddings.errors import InvalidVectors

Vectors = NDArray[np.float32]
"""`(n, dimension)` float32, C-contiguous, every row of length 1; or one such row, `(dimension,)`."""

_SHORTEST = 1e-6
_LENGTH_TOLERANCE = 1e-3


def unit_rows(raw: NDArray[np.floating], *, rows: int, dimension: int) -> Vectors:
    """Scale every row of `(rows, dimension)` to length 1.

    Raises:
        InvalidVectors: another shape, a value that is not finite, or a row of length zero.
    """
    _require_shape(raw, rows, dimension)
    wide = raw.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise InvalidVectors("the model returned a vector that is not finite")
    if rows and lengths.min() < _SHORTEST:
        raise InvalidVectors("the model returned a vector of length zero")
    return np.ascontiguousarray(wide / lengths, dtype=np.float32)


def require_unit_rows(rows: Vectors, *, count: int, dimension: int) -> Vectors:
    """The same array, once it is known to hold `count` unit rows of `dimension` numbers.

    Raises:
        InvalidVectors: anything else.
    """
    _require_shape(rows, count, dimension)
    lengths = np.linalg.norm(rows, axis=1)
    # Written so that a NaN fails it too.
    if not (np.abs(lengths - 1.0) <= _LENGTH_TOLERANCE).all():
        raise InvalidVectors("the encoder returned a vector that is not a finite unit vector")
    return rows


def _require_shape(array: NDArray[np.floating], rows: int, dimension: int) -> None:
    if array.shape != (rows, dimension):
        raise InvalidVectors(f"expected {rows} vectors of dimension {dimension}, got shape {array.shape}")
