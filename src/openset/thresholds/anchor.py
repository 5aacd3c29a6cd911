"""The share of known samples that :func:`openset.thresholds.anchored` accepts."""

from typing import Any

import numpy as np
import scipy  # whose parts are imported when first used

ANCHOR, STRENGTH = 0.8, 0.5
"""Where it starts, as a share of the closed-set accuracy, and how many kinds of
unknowns that counts for: settled on parts A to C of benchmarks/missing_kinds.py."""

_ENDS = (0.01, 0.99)  # shares beyond are infinitely far away on the probit scale


def anchored_share(
    best: Any,
    accuracy: Any,
    n_kinds: int,
    *,
    anchor: float = ANCHOR,
    strength: float = STRENGTH,
) -> Any:
    """Return the share of known samples to accept, between the anchor and the best.

    Examples
    --------
    >>> [round(float(anchored_share(0.95, 1.0, k)), 3) for k in (1, 3, 100)]
    [0.916, 0.937, 0.95]
    """
    start, end = (
        scipy.special.ndtri(np.clip(anchor * np.asarray(accuracy), *_ENDS)),
        scipy.special.ndtri(np.clip(best, *_ENDS)),
    )
    return scipy.special.ndtr((n_kinds * end + strength * start) / (n_kinds + strength))
