"""The mean cost of decisions, and the threshold with the lowest cost."""

from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check
from openset.metrics.counts import Prefer, best_level, ranking_counts
from openset.scores import Scores, need_scores
from openset.thresholds._fingerprint import Fingerprint
from openset.thresholds._osa import AT, PREFER
from openset.thresholds._threshold import (
    At,
    Count,
    Rate,
    Span,
    Threshold,
    inside,
    need_threshold,
)
from openset.thresholds.alpha import Alpha, weight_of
from openset.thresholds.prices import Prices


def cost(
    scores: Scores,
    threshold: Threshold,
    cost_matrix: ArrayLike | None = None,
    *,
    missed_unknown: float = 1.0,
    false_unknown: float = 1.0,
    confusion: float = 1.0,
    alpha: Alpha = None,
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
    >>> cost(test, threshold, missed_unknown=10)  # (0 + 1) / 2 and 10, half each
    5.25
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
    if not (scores.n_known and scores.n_unknown):  # one side is all there is
        return float(of_sample.mean())
    share = float(weight_of(caller, alpha, scores))
    sides = of_sample[~scores.is_unknown].mean(), of_sample[scores.is_unknown].mean()
    return float(share * sides[0] + (1 - share) * sides[1])


def by_cost(
    scores: Scores,
    cost_matrix: ArrayLike | None = None,
    *,
    missed_unknown: float = 1.0,
    false_unknown: float = 1.0,
    confusion: float = 1.0,
    alpha: Alpha = None,
    prefer: Prefer = "smallest",
    at: At = "score",
) -> Threshold:
    r"""Threshold whose decisions have the lowest mean cost.

    .. math:: \min_\theta \sum_i w_i \bigl([s_i \ge \theta] M_{y_i \hat y_i}
              + [s_i < \theta] M_{y_i, \text{unknown}}\bigr), \qquad
              w_i = \alpha / n_k \text{ or } (1 - \alpha) / n_u

    over all distinct scores and +inf (reject all). With all three costs 1 this is the
    threshold of :func:`osa`. Whole and decimal costs are added up exactly.

    Parameters
    ----------
    scores
        Known validation samples together with surrogate unknowns.
    cost_matrix
        Shape (C + 1, C + 1): row is the true class, column the decision, unknown last.
        Replaces the three costs below.
    missed_unknown
        Cost of accepting an unknown sample.
    false_unknown
        Cost of rejecting a known sample, whatever its predicted class.
    confusion
        Cost of accepting a known sample with the wrong class.
    alpha
        Weight of the known samples, as in :func:`osa`: the cost is
        ``alpha * (mean of known samples) + (1 - alpha) * (mean of unknown)``.
    prefer, at
        As in :func:`osa`.

    Examples
    --------
    Accepting an unknown sample costs ten times as much as rejecting a known one:
    rejecting both known samples is cheaper than accepting the unknown one.

    >>> scores = Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[2, 1, 3])
    >>> by_cost(scores, missed_unknown=10).value
    inf
    >>> by_cost(scores, missed_unknown=0.5).value
    1.0
    """
    caller = "thresholds.by_cost"
    need_scores(caller, scores)
    _check.one_of(caller, "at", at, AT)
    _check.one_of(caller, "prefer", prefer, PREFER)
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
        alpha=float(weight_of(caller, alpha, scores)),
        fingerprint=Fingerprint.of(scores),
    )


def _weights(caller: str, scores: Scores, alpha: Alpha) -> tuple[Fraction, Fraction]:
    """Weight of one known and of one unknown sample."""
    share = weight_of(caller, alpha, scores)
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
    # Samples with the same label and prediction cost the same: there are few prices.
    n_pairs, which = _pairs(scores)
    table = np.empty((n_pairs, 3))
    table[which] = np.column_stack([rejected, accepted, scores.is_unknown])
    kinds, kind = np.unique(table, axis=0, return_inverse=True)
    which = kind.ravel()[which]
    # as decimals, as the caller wrote them: 0.1 + 0.2 is exactly 0.3
    prices = [
        [_check.fraction(one) * weight[int(unknown)] for one in (off, on)]
        for off, on, unknown in kinds.tolist()
    ]
    scale = lcm(*(one.denominator for two in prices for one in two))
    whole = [[int(one * scale) for one in two] for two in prices]
    saved = [off - on for off, on in whole]
    fits = max(map(abs, saved)) * len(scores) < 2**62
    # Prices far apart need Python's integers, which never overflow but are slow.
    steps = np.array(saved, dtype=np.int64 if fits else object)
    total = np.concatenate([steps[:0], [0], np.cumsum(steps[which[order]])])
    n = np.bincount(which).tolist()
    everything = sum(off * here for (off, _), here in zip(whole, n, strict=True))
    return total[upto], everything, Fraction(1, scale)


def _pairs(scores: Scores) -> tuple[int, NDArray[np.intp]]:
    """Count the distinct pairs (label, predicted); index the pair of each sample."""
    width = int(scores.predicted.max()) + 1
    size = (int(scores.labels.max()) + 2) * width
    if size > 8 * len(scores) + 1024:
        # Numbered anew: the product of two large class numbers would overflow.
        labels, predicted = (
            np.unique(one, return_inverse=True)[1]
            for one in (scores.labels, scores.predicted)
        )
        pair = labels * (int(predicted.max()) + 1) + predicted
        pairs, which = np.unique(pair, return_inverse=True)
        return pairs.size, which
    pair = (scores.labels + 1) * width + scores.predicted
    # A table of flags: no sort for what two passes can tell.
    occurs = np.zeros(size, dtype=bool)
    occurs[pair] = True
    return int(np.count_nonzero(occurs)), (np.cumsum(occurs) - 1)[pair]
