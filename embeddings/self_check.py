"""Whether a faster way to run a model still makes that model's vectors."""

import numpy as np

from embeddings.encoder_settings import Precision
from embeddings.errors import PrecisionRefused
from embeddings.vectors import Vectors

# Short and long, prose and part numbers, other scripts: lengths differ so that shapes that were baked in
# when a model was traced show up, and so does padding.
PROBES: tuple[str, ...] = (
    "door",
    "How do I replace the bottom roller of a sliding door?",
    "NW-SL45/2 sill adapter, anodised, 2.4 m",
    "Maximum panel width 1,200 mm; maximum panel height 3,000 mm; maximum panel weight 120 kg.",
    "The threshold is rated for wind-driven rain up to 580 Pa when the sill pan is drained to the outside.",
    "Wie wird die Dichtung am unteren Profil ausgetauscht?",
    "防水等级和最大面板宽度",
    "Return policy: unopened items may be returned within 30 days, opened items within 14 days of delivery.",
    " ".join(
        [
            "Before the frame is fixed, check that the opening is plumb, level and square, and that the floor",
            "can carry the load of the stacked panels without settling.",
        ]
        * 6
    ),
    "I moved to another state last month. Which forms do I need to keep my benefits, and by when?",
)

LEAST_COSINE = {Precision.FP32: 0.9999, Precision.BF16: 0.998, Precision.INT8: 0.98}


def least_cosine(reference: Vectors, vectors: Vectors) -> float:
    """The worst cosine between two encodings of the same texts; rows of both are unit vectors."""
    return float(np.einsum("ij,ij->i", reference, vectors, dtype=np.float64).min())


def require_agreement(precision: Precision, cosine: float) -> None:
    """Accept a precision whose worst probe is at least `LEAST_COSINE` to the fp32 reference.

    Raises:
        PrecisionRefused: it is below; the vectors would not be the model's.
    """
    least = LEAST_COSINE[precision]
    if not cosine >= least:
        raise PrecisionRefused(
            f"{precision.value} vectors fall to a cosine of {cosine:.4f} to fp32 on the self-check, below {least}",
            cosine=cosine,
        )
