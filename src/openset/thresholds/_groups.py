"""Open-set accuracy against each group of unknowns, at every threshold."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics.counts import ranking_counts
from openset.scores import Scores

EVERYONE = "all"
"""The name of the unknowns' group where scores have none."""


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


def by_group(caller: str, scores: Scores, alpha: float | None) -> ByGroup:
    """Count the unknowns of each group at every distinct score.

    `alpha` None is the share of knowns among all samples, the same for every group.
    """
    _check.both_sides(caller, scores.n_known, scores.n_unknown)
    share = (
        Fraction(scores.n_known, len(scores))
        if alpha is None
        else _check.rate(caller, "alpha", alpha)
    )
    table = ranking_counts(scores)
    # With a score of +inf no threshold rejects all.
    first = 1 if table.values[1] == np.inf else 0
    values = table.values[first:]
    names, group = group_of_unknowns(scores)
    unknown = scores.known[scores.is_unknown]
    urr = np.empty((len(names), values.size))
    for i in range(len(names)):
        ordered = np.sort(unknown[group == i])
        urr[i] = np.searchsorted(ordered, values, side="left") / ordered.size
    return ByGroup(
        names=names,
        n=np.bincount(group),
        values=values,
        ccr=table.correct[first:] / table.n_known,
        urr=urr,
        alpha=float(share),
    )


def group_of_unknowns(scores: Scores) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """Names of the unknowns' groups, and the place of each unknown among them."""
    if scores.groups is None:
        return (EVERYONE,), np.zeros(scores.n_unknown, dtype=np.intp)
    names, place = np.unique(scores.groups[scores.is_unknown], return_inverse=True)
    return tuple(str(name) for name in names), place
