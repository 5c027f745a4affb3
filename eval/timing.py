"""Times as they are reported."""

from collections.abc import Sequence

import numpy as np


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """`p50` and `p95` in milliseconds; empty of nothing."""
    if not seconds:
        return {}
    p50, p95 = np.quantile(np.asarray(seconds), [0.5, 0.95])
    return {"p50": round(float(p50) * 1e3, 3), "p95": round(float(p95) * 1e3, 3)}
