"""One threshold per predicted class, shrunk towards a common one."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics.counts import best_level, ranking_counts
from openset.scores import Scores, need_scores
from openset.thresholds._osa import osa
from openset.thresholds._threshold import Rate, Threshold
from openset.thresholds.alpha import Alpha, weight_of
from openset.thresholds.intervals import of_osa

_MOST_CLASSES = 1 << 27  # a threshold is kept for every number up to the largest


def per_class(
    scores: Scores, alpha: Alpha = None, *, strength: float = 100.0
) -> Threshold:
    r"""One threshold per predicted class; classes with few samples share one.

    .. math:: \theta_c = \arg\max_\theta\; n\,\mathrm{OSA}_c(\theta)
              + k\,\mathrm{OSA}(\theta)

    where :math:`\mathrm{OSA}_c` counts only the samples predicted as class c (so that
    :math:`\sum_c \mathrm{OSA}_c = \mathrm{OSA}`) and k, the `strength`, is the number
    of samples that the set as a whole counts for. A class with few samples gets nearly
    the threshold of :func:`osa`, a class with many its own. Only the order of scores
    matters.

    Parameters
    ----------
    scores
        Known validation samples and surrogate unknowns.
    alpha
        Weight of the known samples, as in :func:`osa`.
    strength
        Pseudo-samples of the whole set in each class. 0: each class is treated on its
        own; inf: all classes get the threshold of :func:`osa`.

    Examples
    --------
    Class 1 is scored one higher than class 0:

    >>> scores = Scores(
    ...     labels=[0, 0, -1, 1, 1, -1],
    ...     predicted=[0, 0, 0, 1, 1, 1],
    ...     known=[3, 2, 1, 4, 3, 2],
    ... )
    >>> per_class(scores, strength=0).per_class
    (2.0, 3.0)
    >>> per_class(scores, strength=np.inf).per_class
    (3.0, 3.0)
    """
    caller = "thresholds.per_class"
    need_scores(caller, scores)
    _check.number(caller, "strength", strength, low=0)
    _check.both_sides(caller, scores.n_known, scores.n_unknown)
    share = weight_of(caller, alpha, scores)
    counts = ranking_counts(scores)
    overall = osa(scores, alpha)
    n_classes = int(scores.classes.max()) + 1
    if n_classes > _MOST_CLASSES:
        rule, got = f"numbered below {_MOST_CLASSES}", f"class {n_classes - 1}"
        msg = _check.must(rule, caller=caller, name="classes", got=got)
        raise ValueError(msg)
    thresholds = np.full(n_classes, overall.value)
    if not np.isinf(strength):
        hit = float(share / scores.n_known)
        miss = float((1 - share) / scores.n_unknown)
        whole = strength / len(scores) * (hit * counts.correct - miss * counts.unknown)
        steps = np.where(scores.is_correct, hit, 0.0) - miss * scores.is_unknown
        order = np.lexsort((-scores.known, scores.predicted))
        # Only classes that occur: numbers of classes may be far apart.
        classes, starts = np.unique(scores.predicted[order], return_index=True)
        for c, rows in zip(classes, np.split(order, starts[1:]), strict=True):
            own = _gain(counts.values, scores.known[rows], steps[rows])
            gain = np.round(own + whole, 12)
            level = best_level(counts.values, gain)[0]
            thresholds[c] = counts.values[level]
    chosen = replace(
        overall,
        method="per_class",
        target=float(strength),
        per_class=tuple(thresholds.tolist()),
    )
    rates, weight = chosen.rates(scores), float(share)
    rate = Rate("osa", rates.osa(weight), of_osa(rates, weight))
    return replace(chosen, rate=rate)


def _gain(
    values: NDArray[np.float64],
    known: NDArray[np.float64],
    steps: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Gain of accepting some samples (best first) at each level of the whole set."""
    total = np.concatenate([[0.0], np.cumsum(steps)])
    upto = np.searchsorted(-known, -values, side="right")
    upto[0] = 0  # "reject all"
    return total[upto]
