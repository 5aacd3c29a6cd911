"""What decisions cost, and the threshold of the least expected cost."""

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check
from openset.metrics.counts import Prefer, best_level, ranking_counts
from openset.scores import Scores, need_scores
from openset.thresholds._fingerprint import Fingerprint
from openset.thresholds._osa import AT
from openset.thresholds._threshold import (
    At,
    Count,
    Rate,
    Span,
    Threshold,
    inside,
    need_threshold,
)

_DEAREST = 1e100
"""The highest price: sums and squares of more would be beyond all floats."""


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
        """Check what a caller was given; a matrix stands instead of the three."""
        costs = {
            "missed_unknown": missed_unknown,
            "false_unknown": false_unknown,
            "confusion": confusion,
        }
        if cost_matrix is None:
            for name, one in costs.items():
                _check.number(caller, name, one, low=0, high=_DEAREST)
            return cls(**costs, matrix=None)
        if set(costs.values()) != {1.0}:
            msg = _check.must(
                "left out where the three costs are given",
                caller=caller,
                name="cost_matrix",
                got="both",
            )
            raise ValueError(msg)
        matrix = _numbers(caller, cost_matrix)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
            raise ValueError(_not_square(caller, 2, matrix))
        is_price = np.abs(matrix) <= _DEAREST  # NaN is none
        if not is_price.all():
            msg = _check.must(
                f"finite, from {-_DEAREST:g} to {_DEAREST:g}",
                caller=caller,
                name="cost_matrix",
                got=f"{np.count_nonzero(~is_price)} entries that are not",
            )
            raise ValueError(msg)
        # What a mistake costs more than the right decision does.
        beyond = matrix - np.diag(matrix)[:, None]
        return cls(
            missed_unknown=float(beyond[-1, :-1].mean()),
            false_unknown=float(beyond[:-1, -1].mean()),
            confusion=float(beyond[:-1, :-1].mean()),
            matrix=matrix,
        )

    def worst(self, alpha: float) -> float:
        """Return what it costs to reject all knowns and accept all unknowns.

        In shares of it costs are what one less accuracy is; 1 if all is free.
        """
        return sum(self._sides(alpha)) or 1.0

    def known_side(self, alpha: float) -> float:
        """Return the weight of the knowns at which accuracy tells what cost would.

        It does so exactly where a wrong class costs what a false unknown does.
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
        f"square with a row per known class and one for unknown, at least {least}",
        caller=caller,
        name="cost_matrix",
        got=f"shape {matrix.shape}",
    )


def cost(
    scores: Scores,
    threshold: Threshold,
    cost_matrix: ArrayLike | None = None,
    *,
    missed_unknown: float = 1.0,
    false_unknown: float = 1.0,
    confusion: float = 1.0,
    alpha: float | None = None,
) -> float:
    """Mean cost of a threshold's decisions, on samples it was not chosen on.

    Parameters
    ----------
    scores
        Test samples; those the threshold was chosen on are refused.
    threshold
        Chosen by :func:`by_cost` or in any other way.
    cost_matrix, missed_unknown, false_unknown, confusion, alpha
        As in :func:`by_cost`.

    Examples
    --------
    >>> calibration = Scores(labels=[0, -1], predicted=[0, 0], known=[2, 1])
    >>> threshold = by_cost(calibration, missed_unknown=10)
    >>> test = Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[3, 1.5, 2.5])
    >>> round(cost(test, threshold, missed_unknown=10), 4)  # one of each, for three
    3.6667
    """
    caller = "thresholds.cost"
    need_scores(caller, scores)
    need_threshold(caller, threshold)
    prices = Prices.of(
        caller,
        cost_matrix,
        missed_unknown=missed_unknown,
        false_unknown=false_unknown,
        confusion=confusion,
    )
    threshold.check_disjoint(scores, caller=caller)
    of_sample = np.where(threshold.accepts(scores), *prices.of_samples(caller, scores))
    if alpha is None:
        return float(of_sample.mean())
    _check.both_sides(caller, scores.n_known, scores.n_unknown)
    share = float(_check.rate(caller, "alpha", alpha))
    sides = of_sample[~scores.is_unknown].mean(), of_sample[scores.is_unknown].mean()
    return float(share * sides[0] + (1 - share) * sides[1])


def by_cost(
    scores: Scores,
    cost_matrix: ArrayLike | None = None,
    *,
    missed_unknown: float = 1.0,
    false_unknown: float = 1.0,
    confusion: float = 1.0,
    alpha: float | None = None,
    prefer: Prefer = "smallest",
    at: At = "score",
) -> Threshold:
    r"""Threshold with the least mean cost of its decisions.

    .. math:: \min_\theta \frac1n \Bigl(
              \sum_{s_i \ge \theta} M_{y_i \hat y_i} +
              \sum_{s_i < \theta} M_{y_i, \text{unknown}} \Bigr)

    over all distinct scores and +inf (reject all). With all three costs 1 this is the
    threshold of :func:`osa`. Whole and decimal costs are added up exactly.

    Parameters
    ----------
    scores
        Validation knowns together with surrogate unknowns.
    cost_matrix
        Shape (C + 1, C + 1): cost of deciding column where row is true, unknown last.
        Instead of the next three.
    missed_unknown
        Cost of accepting an unknown.
    false_unknown
        Cost of rejecting a known, whichever class it was going to be given.
    confusion
        Cost of giving a known the wrong class.
    alpha
        Weight of the known side, as in :func:`osa`: the cost is then
        ``alpha * (mean over knowns) + (1 - alpha) * (mean over unknowns)``.
    prefer, at
        As in :func:`osa`.

    Examples
    --------
    A missed unknown is ten times as bad as a known sent away, so both knowns go:

    >>> scores = Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[2, 1, 3])
    >>> by_cost(scores, missed_unknown=10).value
    inf
    >>> by_cost(scores, missed_unknown=0.5).value
    1.0
    """
    caller = "thresholds.by_cost"
    need_scores(caller, scores)
    _check.one_of(caller, "at", at, AT)
    _check.one_of(caller, "prefer", prefer, ["smallest", "highest", "widest"])
    _check.both_sides(caller, scores.n_known, scores.n_unknown)
    prices = Prices.of(
        caller,
        cost_matrix,
        missed_unknown=missed_unknown,
        false_unknown=false_unknown,
        confusion=confusion,
    )
    accepted, rejected = prices.of_samples(caller, scores)
    weight = _weights(caller, scores, alpha)
    table = ranking_counts(scores)
    gain, everything, unit = _gain(scores, table.values, accepted, rejected, weight)
    level, start, stop, _ = best_level(table.values, gain, prefer=prefer)
    values = np.append(table.values, -np.inf)
    span = Span(float(values[stop]), float(values[start]))
    # Cost at "reject all" minus what accepting down to the level saves.
    least = float((everything - int(gain[level])) * unit)
    value = inside(span, float(values[level]), at)
    return Threshold(
        value=value,
        method="by_cost",
        target=None,
        n=Count(scores.n_known, scores.n_unknown),
        interval=span,
        rate=Rate("cost", least, None),
        alpha=None if alpha is None else float(alpha),
        fingerprint=Fingerprint.of(scores),
    )


def _weights(
    caller: str, scores: Scores, alpha: float | None
) -> tuple[Fraction, Fraction]:
    """Weight of one known and of one unknown sample."""
    if alpha is None:
        return Fraction(1, len(scores)), Fraction(1, len(scores))
    share = _check.rate(caller, "alpha", alpha)
    return share / scores.n_known, (1 - share) / scores.n_unknown


def _gain(
    scores: Scores,
    values: NDArray[np.float64],
    accepted: NDArray[np.float64],
    rejected: NDArray[np.float64],
    weight: tuple[Fraction, Fraction],
) -> tuple[NDArray[Any], int, Fraction]:
    """Cost saved by accepting down to each level, cost of rejecting all, and the unit.

    Whole numbers make equal costs compare equal; rounded ones would not.
    """
    order = np.argsort(-scores.known, kind="stable")
    # How many samples are accepted at each level ("reject all" accepts none).
    upto = np.searchsorted(-scores.known[order], -values, side="right")
    upto[0] = 0
    # Samples of one label and one class cost the same: few prices, many samples.
    width = int(scores.predicted.max()) + 1
    pair = (scores.labels + 1) * width + scores.predicted
    pairs, which = np.unique(pair, return_inverse=True)
    table = np.empty((pairs.size, 3))
    table[which] = np.column_stack([rejected, accepted, scores.is_unknown])
    kinds, kind = np.unique(table, axis=0, return_inverse=True)
    which = kind.ravel()[which]
    # the decimal the caller wrote: 0.1 and 0.2 together cost as much as 0.3
    prices = [
        [_check.fraction(one) * weight[int(unknown)] for one in (off, on)]
        for off, on, unknown in kinds.tolist()
    ]
    scale = lcm(*(one.denominator for two in prices for one in two))
    whole = [[int(one * scale) for one in two] for two in prices]
    saved = [off - on for off, on in whole]
    fits = max(map(abs, saved)) * len(scores) < 2**62
    # Prices far apart: Python's own numbers, which know no end, and take their time.
    steps = np.array(saved, dtype=np.int64 if fits else object)
    total = np.concatenate([steps[:0], [0], np.cumsum(steps[which[order]])])
    n = np.bincount(which).tolist()
    everything = sum(off * here for (off, _), here in zip(whole, n, strict=True))
    return total[upto], everything, Fraction(1, scale)
