"""Prices of decisions."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check
from openset.scores import Scores

_LARGEST = 1e100
"""The highest price: sums and squares of larger ones would overflow."""


@dataclass(frozen=True, eq=False)
class Prices:
    """What decisions cost: three prices, or one for each truth and decision."""

    missed_unknown: float
    false_unknown: float
    confusion: float
    matrix: NDArray[np.float64] | None

    @classmethod
    def of(
        cls,
        caller: str,
        cost_matrix: ArrayLike | None = None,
        *,
        missed_unknown: float = 1.0,
        false_unknown: float = 1.0,
        confusion: float = 1.0,
    ) -> Self:
        """Check the prices a caller was given: a matrix, or the three."""
        costs = {
            "missed_unknown": missed_unknown,
            "false_unknown": false_unknown,
            "confusion": confusion,
        }
        if cost_matrix is None:
            for name, one in costs.items():
                _check.number(caller, name, one, low=0, high=_LARGEST)
            return cls(**costs, matrix=None)
        if set(costs.values()) != {1.0}:
            msg = _check.must(
                "left out if the three costs are given",
                caller=caller,
                name="cost_matrix",
                got="both",
            )
            raise ValueError(msg)
        matrix = _numbers(caller, cost_matrix)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
            raise ValueError(_not_square(caller, 2, matrix))
        is_price = np.abs(matrix) <= _LARGEST  # NaN is none
        if not is_price.all():
            msg = _check.must(
                f"finite, from {-_LARGEST:g} to {_LARGEST:g}",
                caller=caller,
                name="cost_matrix",
                got=f"{np.count_nonzero(~is_price)} other entries",
            )
            raise ValueError(msg)
        # What a mistake costs beyond what the right decision costs.
        beyond = matrix - np.diag(matrix)[:, None]
        return cls(
            missed_unknown=float(beyond[-1, :-1].mean()),
            false_unknown=float(beyond[:-1, -1].mean()),
            confusion=float(beyond[:-1, :-1].mean()),
            matrix=matrix,
        )

    def worst(self, alpha: float) -> float:
        """Return the cost of rejecting all known samples and accepting all unknowns.

        Costs divided by it are comparable to one minus the open-set accuracy. It is 1
        if every decision is free.
        """
        return sum(self._sides(alpha)) or 1.0

    def known_side(self, alpha: float) -> float:
        """Return the weight of the known samples at which accuracy ranks as cost does.

        The two agree exactly if a wrong class costs as much as a rejected known.
        """
        known, unknown = self._sides(alpha)
        return known / (known + unknown) if known + unknown > 0 else alpha

    def _sides(self, alpha: float) -> tuple[float, float]:
        # In a matrix a mistake may be a gain; then its side has no weight.
        known = alpha * max(self.false_unknown, 0.0)
        return known, (1 - alpha) * max(self.missed_unknown, 0.0)

    def of_samples(
        self, caller: str, scores: Scores
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what each sample costs if it is accepted, and if it is rejected."""
        if self.matrix is None:
            of_known = np.where(scores.is_correct, 0.0, self.confusion)
            accepted = np.where(scores.is_unknown, self.missed_unknown, of_known)
            rejected = np.where(scores.is_unknown, 0.0, self.false_unknown)
            return accepted, rejected
        n_classes = int(scores.classes.max()) + 1
        if len(self.matrix) < n_classes + 1:
            raise ValueError(_not_square(caller, n_classes + 1, self.matrix))
        # the label -1 of unknowns reads the last row, as it should
        return (
            self.matrix[scores.labels, scores.predicted],
            self.matrix[scores.labels, -1],
        )


def _numbers(caller: str, cost_matrix: ArrayLike) -> NDArray[np.float64]:
    try:
        return np.asarray(cost_matrix, dtype=np.float64)
    except (ValueError, TypeError) as error:
        msg = _check.must(
            "rows of numbers, equally long",
            caller=caller,
            name="cost_matrix",
            got=f"something else ({error})",
        )
        raise ValueError(msg) from error


def _not_square(caller: str, least: int, matrix: NDArray[np.float64]) -> str:
    return _check.must(
        "square, with a row per known class and a last one for unknown, at least "
        f"{least}",
        caller=caller,
        name="cost_matrix",
        got=f"shape {matrix.shape}",
    )
