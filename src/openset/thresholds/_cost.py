"""The threshold with the least expected cost."""

from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check
from openset.metrics._levels import levels
from openset.metrics._osa import Ties, best_level
from openset.scores import Scores, need_scores
from openset.thresholds._fingerprint import Fingerprint
from openset.thresholds._osa import AT
from openset.thresholds._threshold import At, Count, Rate, Span, Threshold, inside


def by_cost(
    scores: Scores,
    cost_matrix: ArrayLike | None = None,
    *,
    missed_unknown: float = 1.0,
    false_unknown: float = 1.0,
    confusion: float = 1.0,
    alpha: float | None = None,
    ties: Ties = "smallest",
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
    ties, at
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
    _check.one_of(caller, "ties", ties, ["smallest", "highest", "widest"])
    _check.both_sides(caller, scores.n_known, scores.n_unknown)
    n_classes = int(scores.classes.max()) + 1
    if cost_matrix is None:
        costs = {
            "missed_unknown": missed_unknown,
            "false_unknown": false_unknown,
            "confusion": confusion,
        }
        for name, cost in costs.items():
            _check.number(caller, name, cost, low=0, high=np.finfo(float).max)
        accepted = np.where(
            scores.is_unknown,
            missed_unknown,
            np.where(scores.is_correct, 0.0, confusion),
        )
        rejected = np.where(scores.is_unknown, 0.0, false_unknown)
    else:
        if (missed_unknown, false_unknown, confusion) != (1.0, 1.0, 1.0):
            msg = _check.must(
                "left out where the three costs are given",
                caller=caller,
                name="cost_matrix",
                got="both",
            )
            raise ValueError(msg)
        matrix = _matrix(caller, cost_matrix, n_classes)
        # the label -1 of unknowns reads the last row, as it should
        accepted = matrix[scores.labels, scores.predicted]
        rejected = matrix[scores.labels, -1]
    weight = _weights(caller, scores, alpha)
    table = levels(scores)
    gain, everything, unit = _gain(scores, table.values, accepted, rejected, weight)
    level, start, stop, _ = best_level(table.values, gain, ties=ties)
    values = np.append(table.values, -np.inf)
    span = Span(float(values[stop]), float(values[start]))
    # Cost at "reject all" minus what accepting down to the level saves.
    cost = float((everything - int(gain[level])) * unit)
    value = inside(span, float(values[level]), at)
    return Threshold(
        value=value,
        method="by_cost",
        target=None,
        n=Count(scores.n_known, scores.n_unknown),
        interval=span,
        rate=Rate("cost", cost, None),
        alpha=None if alpha is None else float(alpha),
        fingerprint=Fingerprint.of(scores),
    )


def _matrix(caller: str, values: ArrayLike, n_classes: int) -> NDArray[np.float64]:
    matrix = np.asarray(values, dtype=np.float64)
    is_square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
    if not is_square or matrix.shape[0] < n_classes + 1:
        msg = _check.must(
            f"square with a row per known class and one for unknown, at least "
            f"{n_classes + 1}",
            caller=caller,
            name="cost_matrix",
            got=f"shape {matrix.shape}",
        )
        raise ValueError(msg)
    if not np.isfinite(matrix).all():
        msg = _check.must(
            "finite",
            caller=caller,
            name="cost_matrix",
            got=f"{np.count_nonzero(~np.isfinite(matrix))} entries that are not",
        )
        raise ValueError(msg)
    return matrix


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
    kinds, which, n = np.unique(
        np.column_stack([rejected, accepted, scores.is_unknown]),
        axis=0,
        return_inverse=True,
        return_counts=True,
    )
    # the decimal the caller wrote: 0.1 and 0.2 together cost as much as 0.3
    prices = [
        [_check.fraction(one) * weight[int(unknown)] for one in (off, on)]
        for off, on, unknown in kinds.tolist()
    ]
    scale = lcm(*(one.denominator for pair in prices for one in pair))
    whole = [[int(one * scale) for one in pair] for pair in prices]
    saved = [off - on for off, on in whole]
    fits = max(map(abs, saved)) * len(scores) < 2**62
    # Prices far apart: Python's own numbers, which know no end, and take their time.
    steps = np.array(saved, dtype=np.int64 if fits else object)
    total = np.concatenate([steps[:0], [0], np.cumsum(steps[which.ravel()[order]])])
    everything = sum(
        off * count for (off, _), count in zip(whole, n.tolist(), strict=True)
    )
    return total[upto], everything, Fraction(1, scale)
