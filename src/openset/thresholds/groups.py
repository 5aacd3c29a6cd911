"""Open-set accuracy against each group of unknowns, at every threshold."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics.counts import ranking_counts
from openset.scores import Scores
from openset.thresholds.alpha import Alpha, weight_of

SYNTHETIC_PREFIX = "synthetic:"
"""How the group names of synthetic unknowns begin."""


@dataclass(frozen=True, eq=False)
class ByGroup:
    """Rates at each threshold, strictest first; one row per group of unknowns."""

    names: tuple[str, ...]
    n: NDArray[np.int64]
    values: NDArray[np.float64]  # (m,)
    ccr: NDArray[np.float64]  # (m,)
    urr: NDArray[np.float64]  # (g, m)
    alpha: float

    @property
    def osa(self) -> NDArray[np.float64]:
        """Open-set accuracy, shape (g, m)."""
        return self.alpha * self.ccr + (1 - self.alpha) * self.urr

    @property
    def regret(self) -> NDArray[np.float64]:
        """What each group loses against its own best threshold, shape (g, m)."""
        return self.osa.max(axis=1, keepdims=True) - self.osa


def by_group(caller: str, scores: Scores, alpha: Alpha) -> ByGroup:
    """Count the unknowns of each group at every distinct score.

    `alpha` is the same for every group.
    """
    _check.both_sides(caller, scores.n_known, scores.n_unknown)
    share = weight_of(caller, alpha, scores)
    counts = ranking_counts(scores)
    # With a score of +inf no threshold rejects all.
    first = 1 if counts.values[1] == np.inf else 0
    values = counts.values[first:]
    groups = scores.unknown_groups
    urr = np.empty((len(groups.names), values.size))
    if len(groups.names) == 1:  # all unknowns, which are counted already
        urr[0] = (counts.n_unknown - counts.unknown[first:]) / counts.n_unknown
    else:
        unknown = scores.known[scores.is_unknown]
        for i in range(len(groups.names)):
            ordered = np.sort(unknown[groups.index == i])
            urr[i] = np.searchsorted(ordered, values, side="left") / ordered.size
    return ByGroup(
        names=groups.names,
        n=np.bincount(groups.index),
        values=values,
        ccr=counts.correct[first:] / counts.n_known,
        urr=urr,
        alpha=float(share),
    )
