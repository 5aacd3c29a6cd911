"""Prediction sets: "one of these classes" for accepted samples, with a coverage."""

from dataclasses import dataclass
from math import ceil
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp

_AT_A_TIME = 1 << 20  # probabilities in memory


@dataclass(frozen=True, kw_only=True)
class SetRule:
    r"""Which classes belong to the prediction set of a sample.

    Class c belongs to the set iff :math:`1 - p_c` is at most a limit, p being the
    softmax of the logits; the predicted class always does. The limit is the
    :math:`\lceil (n + 1) \cdot \mathrm{coverage} \rceil`-th smallest
    :math:`1 - p_y` of the true class y among n *accepted* known samples; 1, so that all
    classes belong, if there are too few.

    **What is guaranteed.** If a new sample is exchangeable with these, then given that
    it is known and accepted, its class is in the set with probability about `coverage`:
    exactly, if the threshold was chosen on other samples. **What is not**: an accepted
    *unknown* sample has a set as well, which cannot be right; and nothing holds for a
    single class.

    Parameters
    ----------
    coverage
        The share of accepted known samples whose class is to be in the set.
    limit
        The largest :math:`1 - p_c` of a class in a set.
    n
        Number of accepted known samples it was computed from.

    References
    ----------
    Sadinle, Lei and Wasserman, "Least ambiguous set-valued classifiers with bounded
    error levels", JASA 2019.

    Examples
    --------
    >>> rule = SetRule.calibrate(
    ...     [[2.0, 1.0, 0.0]] * 9, labels=[0] * 6 + [1] * 3, coverage=0.8
    ... )
    >>> rule.contains([[2.0, 1.0, 0.0], [5.0, 0.0, 0.0]])
    array([[ True,  True, False],
           [ True, False, False]])
    """

    coverage: float
    limit: float
    n: int

    @classmethod
    def calibrate(cls, logits: Any, labels: Any, *, coverage: float = 0.9) -> Self:
        """Compute the limit from accepted known samples."""
        caller = "Rejector.calibrate"
        coverage = _check.open_unit(caller, "sets", coverage)
        labels = _check.labels(caller, "labels", labels, lowest=0)
        own = _scores(np.asarray(logits))[np.arange(labels.size), labels]
        rank = ceil((own.size + 1) * _check.fraction(coverage))
        limit = 1.0 if rank > own.size else float(np.partition(own, rank - 1)[rank - 1])
        return cls(coverage=coverage, limit=limit, n=own.size)

    def contains(self, logits: Any) -> NDArray[np.bool_]:
        """Return a mask of the classes in the set of each sample, shape (n, C)."""
        values = np.asarray(logits)
        found = np.empty(values.shape, dtype=bool)
        for rows in _xp.runs(len(values), max(1, _AT_A_TIME // values.shape[1])):
            found[rows] = _scores(values[rows]) <= self.limit
        found[np.arange(len(values)), values.argmax(axis=1)] = True
        return found

    def __str__(self) -> str:
        return (
            f"the set contains the right class for {self.coverage:.4g} of the accepted "
            f"known samples (calibrated on {self.n} of them)"
        )


def _scores(logits: NDArray[Any]) -> NDArray[np.float64]:
    values = logits.astype(np.float64)
    top = values.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # inf - inf: as probable as the top
        values = np.exp(np.where(values == top, 0.0, values - top))
    found: NDArray[np.float64] = 1 - values / values.sum(axis=1, keepdims=True)
    return found
