"""What an engine is never asked to do: each check runs before any engine is called."""

from collections.abc import Sequence
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from service.ports.vectors import MAX_HITS, MAX_PAGE, DimensionMismatch, InvalidVector, VectorPoint

NORM_TOLERANCE = 1e-2  # encoders that compute in bfloat16 give "unit" vectors up to 0.4 % off


def unit_vector(vector: NDArray[np.float32], dimension: int) -> NDArray[np.float32]:
    """The vector, (dimension,) little-endian float32 and contiguous.

    Raises:
        DimensionMismatch | InvalidVector
    """
    if vector.ndim != 1:
        raise DimensionMismatch(f"a query is one vector, not an array of {vector.ndim} dimensions")
    return unit_rows(vector.reshape(1, -1), 1, dimension).reshape(-1)


def unit_rows(vectors: NDArray[np.float32], rows: int, dimension: int) -> NDArray[np.float32]:
    """The vectors, (rows, dimension) little-endian float32 and contiguous.

    Raises:
        DimensionMismatch: wrong number of components.
        InvalidVector: a NaN, an infinity or a row that is not of unit length.
        ValueError: another number of rows; a mistake of the caller.
    """
    if vectors.ndim != 2 or len(vectors) != rows:
        raise ValueError(f"{rows} points need {rows} rows of vectors")
    if rows and vectors.shape[1] != dimension:
        raise DimensionMismatch(f"vectors of {vectors.shape[1]} dimensions, collection of {dimension}")
    plain = np.ascontiguousarray(vectors, dtype="<f4")
    norms = np.sqrt(np.einsum("ij,ij->i", plain, plain, dtype=np.float64))
    if not np.all(np.abs(norms - 1.0) <= NORM_TOLERANCE):  # a NaN or an infinity fails this too
        raise InvalidVector("a vector is not finite or not of unit length")
    return plain


def last_of_each(points: Sequence[VectorPoint]) -> dict[UUID, int]:
    """Position of the last point of each id, in order of first appearance."""
    return {point.id: position for position, point in enumerate(points)}


def checked_limit(limit: int) -> int:
    """The number of hits asked for. Raises ValueError outside 1 … MAX_HITS."""
    if not 1 <= limit <= MAX_HITS:
        raise ValueError(f"limit must be in 1 … {MAX_HITS}")
    return limit


def checked_page(limit: int) -> int:
    """The size of a page of ids. Raises ValueError outside 1 … MAX_PAGE."""
    if not 1 <= limit <= MAX_PAGE:
        raise ValueError(f"a page holds 1 … {MAX_PAGE} ids")
    return limit
