"""The ways to choose a threshold."""

from fractions import Fraction
from math import ceil, floor

import numpy as np
import scipy  # whose parts are imported when first used

from openset import _check
from openset._types import UndefinedMetricError
from openset.metrics import Interval
from openset.metrics.counts import (
    ALPHA,
    Alpha,
    best_level,
    ranking_counts,
    weight_of,
    whole_gain,
)
from openset.metrics.curves import optimum
from openset.metrics.intervals import wilson
from openset.metrics.sums import Floats
from openset.scores import Scores, need_both_sides, need_scores
from openset.thresholds.fingerprint import Fingerprint
from openset.thresholds.kinds import by_group
from openset.thresholds.threshold import (
    CONFIDENCE,
    Count,
    Rate,
    Span,
    Threshold,
    of_osa,
)

_MOST_COST = 1e100  # sums and squares of larger ones would overflow


def osa(scores: Scores, alpha: Alpha = ALPHA) -> Threshold:
    r"""Smallest threshold with the largest open-set accuracy on calibration scores.

    .. math:: \theta^* = \arg\max_\theta\; \alpha\,\mathrm{CCR}(\theta)
              + (1 - \alpha)\,\mathrm{URR}(\theta)

    Candidates are all distinct scores and +inf (reject all).

    Parameters
    ----------
    scores
        Known validation samples together with *surrogate* unknowns, none of them in the
        test set.
    alpha
        Weight of the known samples: the share of known samples you expect in operation.
        ``"counts"`` takes their share in the calibration data.

    References
    ----------
    Cruz et al., "Operational open-set recognition and PostMax refinement", ECCV 2024.

    Examples
    --------
    >>> scores = Scores(labels=[0, 0, -1, -1], predicted=[0] * 4, known=[4, 3, 2, 1])
    >>> osa(scores).value
    3.0
    """
    weight = _weight("osa", scores, alpha)
    counts = ranking_counts(scores)
    best = optimum(counts, alpha=weight)
    rate = Rate("osa", best.value, of_osa(counts.rates(best.threshold), best.alpha))
    weights = {"target": best.alpha, "alpha": best.alpha}
    span = Span(best.low, best.high)
    return _made("osa", scores, best.threshold, span, rate, **weights)


def worst_group(scores: Scores, alpha: Alpha = ALPHA) -> Threshold:
    r"""Threshold with the smallest loss on the group of unknowns that loses most.

    .. math:: \min_\theta \max_g \bigl(\max_t \mathrm{OSA}_g(t)
              - \mathrm{OSA}_g(\theta)\bigr)

    where :math:`\mathrm{OSA}_g` is the open-set accuracy of all known samples against
    group g alone. The threshold of :func:`osa` is best for the mixture of unknowns in
    the calibration data; this one is safer if only one kind of them occurs in
    operation.

    Parameters
    ----------
    scores
        Known validation samples and surrogate unknowns, with groups.
    alpha
        As in :func:`osa`.

    Examples
    --------
    >>> scores = Scores(
    ...     labels=[0, 0, 0, -1, -1],
    ...     predicted=[0] * 5,
    ...     known=[5, 4, 2, 3, 1],
    ...     groups=["", "", "", "near", "far"],
    ... )
    >>> worst_group(scores).value
    4.0
    """
    weight = float(_weight("worst_group", scores, alpha))
    table = by_group(scores, weight)
    # Sums of shares round: a trillionth is no difference.
    gain = np.round(-table.regret.max(axis=0), 12)
    at, start = best_level(table.values, gain)
    hardest = int(table.osa[:, at].argmin())
    value, reached = float(table.values[at]), float(table.osa[hardest, at])
    rates = table.rates(ranking_counts(scores).rates(value), value)[hardest]
    rate = Rate("osa of the hardest group", reached, of_osa(rates, weight))
    span, weights = _span(table.values, start, at), {"target": weight, "alpha": weight}
    return _made("worst_group", scores, value, span, rate, **weights)


def by_cost(
    scores: Scores,
    *,
    missed_unknown: float = 1.0,
    false_unknown: float = 1.0,
    confusion: float = 1.0,
    alpha: Alpha = ALPHA,
) -> Threshold:
    r"""Threshold whose decisions have the lowest mean cost.

    .. math:: \min_\theta\; \alpha \bigl(c_f\,(1 - \mathrm{TPR}(\theta))
              + c_c\,(\mathrm{TPR}(\theta) - \mathrm{CCR}(\theta))\bigr)
              + (1 - \alpha)\,c_m\,(1 - \mathrm{URR}(\theta))

    over all distinct scores and +inf (reject all). With all three costs 1 this is the
    threshold of :func:`osa`. Whole and decimal costs are added up exactly.

    Parameters
    ----------
    scores
        Known validation samples together with surrogate unknowns.
    missed_unknown
        Cost :math:`c_m` of accepting an unknown sample.
    false_unknown
        Cost :math:`c_f` of rejecting a known sample, whatever its predicted class.
    confusion
        Cost :math:`c_c` of accepting a known sample with the wrong class.
    alpha
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
    weight = _weight("by_cost", scores, alpha)
    # as decimals, as the caller wrote them: 0.1 + 0.2 is exactly 0.3
    missed = _cost("missed_unknown", missed_unknown)
    false = _cost("false_unknown", false_unknown)
    wrong = _cost("confusion", confusion)
    c = ranking_counts(scores)
    of_known, of_unknown = weight / c.n_known, (1 - weight) / c.n_unknown
    # What accepting saves: a known sample is no longer rejected, a wrong one confused.
    saved = whole_gain(
        c, of_known * wrong, -of_unknown * missed, of_known * (false - wrong)
    )
    at, start = best_level(c.values, saved)
    n_accepted, n_correct = int(c.known[at]), int(c.correct[at])
    least = of_known * (c.n_known - n_accepted) * false
    least += of_known * (n_accepted - n_correct) * wrong
    least += of_unknown * int(c.unknown[at]) * missed
    value, span = float(c.values[at]), _span(c.values, start, at)
    rate = Rate("cost", float(least), None)
    return _made("by_cost", scores, value, span, rate, alpha=float(weight))


def at_fpr(scores: Scores, fpr: float = 0.05) -> Threshold:
    r"""Smallest threshold that accepts at most the share `fpr` of the unknown samples.

    .. math:: \min \{\theta : \mathrm{FPR}(\theta) \le r\}, \qquad
              \mathrm{FPR}(\theta) = \frac1{N_u} \#\{u_j \ge \theta\}

    over the scores of the data and +inf (reject all). At most ``floor(fpr * n)``
    unknown samples are accepted; those with equal scores are accepted together or not
    at all.

    Examples
    --------
    >>> scores = Scores(labels=[0, 0, -1, -1], predicted=[0] * 4, known=[4, 2, 3, 1])
    >>> at_fpr(scores, 0.5).value, at_fpr(scores, 0.0).value
    (2.0, 4.0)
    """
    caller = "thresholds.at_fpr"
    need_scores(caller, scores)
    rate = _check.rate(caller, "fpr", fpr)
    if scores.n_unknown == 0:
        msg = f"{caller}: undefined without unknown samples, got 0 unknown (label -1)"
        raise UndefinedMetricError(msg)
    counts = ranking_counts(scores)
    most = floor(rate * scores.n_unknown)
    level = int(np.searchsorted(counts.unknown, most, side="right")) - 1
    if level == 0 and counts.values[1] == np.inf:
        share = int(counts.unknown[1]) / scores.n_unknown
        rule = (
            f"at least {share:g}, the share of unknown samples with knownness +inf, "
            "which no threshold rejects"
        )
        _check.fail(caller, "fpr", rule, fpr)
    span = _span(counts.values, level, level)
    reached = _share("fpr", int(counts.unknown[level]), scores.n_unknown)
    return _made("at_fpr", scores, span.high, span, reached, target=float(fpr))


def at_tpr(scores: Scores, tpr: float = 0.95) -> Threshold:
    r"""Largest threshold that accepts at least the share `tpr` of the known samples.

    .. math:: \max \{\theta : \mathrm{TPR}(\theta) \ge r\}, \qquad
              \mathrm{TPR}(\theta) = \frac1{N_k} \#\{k_i \ge \theta\}

    At least ``ceil(tpr * n)`` known samples are accepted, whatever their predicted
    class. Needs no unknown samples. The rate holds for the calibration samples; for a
    bound on new ones see :func:`conformal`.

    Examples
    --------
    >>> scores = Scores(labels=[0, 0, 0, -1], predicted=[0] * 4, known=[4, 2, 1, 3])
    >>> at_tpr(scores, 0.5).value, at_tpr(scores, 1.0).value
    (2.0, 1.0)
    """
    caller = "thresholds.at_tpr"
    need_scores(caller, scores)
    rate = _check.rate(caller, "tpr", tpr, open_low=True)
    _check.some_known(caller, scores.n_known)
    counts = ranking_counts(scores)
    level = int(np.searchsorted(counts.known, ceil(rate * scores.n_known)))
    span = _span(counts.values, level, level)
    reached = _share("tpr", int(counts.known[level]), scores.n_known)
    return _made("at_tpr", scores, span.high, span, reached, target=float(tpr))


def conformal(scores: Scores, error_rate: float = 0.05) -> Threshold:
    r"""Threshold that rejects a new known sample with probability at most `error_rate`.

    .. math:: \theta = k_{(r)}, \quad r = \lfloor \epsilon\,(n + 1) \rfloor
              \quad\Rightarrow\quad P(k_{n+1} < \theta) \le \frac{r}{n + 1} \le \epsilon

    where :math:`k_{(r)}` is the r-th smallest of n known calibration scores. The bound
    holds for every n and every distribution, as long as the new sample and the known
    calibration samples are exchangeable; unknown samples are not used. With too few
    known samples (r = 0) the bound can only be kept by accepting everything: the
    threshold is -inf.

    The bound is for the average over calibration sets. The interval of the rate says
    what this one may reject: it is distributed as
    :math:`\mathrm{Beta}(r, n + 1 - r)`.

    Parameters
    ----------
    scores
        Calibration scores; only the known samples count.
    error_rate
        Largest share of known samples to reject, at most 0.5.

    References
    ----------
    Vovk, Gammerman and Shafer, "Algorithmic learning in a random world", 2005.

    Examples
    --------
    With 19 known samples, r = floor(0.05 * 20) = 1: the threshold is the smallest
    score, and a new known sample is below it with probability 1/20.

    >>> known = np.arange(1.0, 20.0)
    >>> scores = Scores(labels=[0] * 19, predicted=[0] * 19, known=known)
    >>> conformal(scores, 0.05).value, conformal(scores, 0.1).value
    (1.0, 2.0)
    >>> conformal(scores, 0.01).value
    -inf
    """
    caller = "thresholds.conformal"
    need_scores(caller, scores)
    # 0.95 would be read as "95 % accepted" by half of the readers: refuse to guess.
    _check.number(caller, "error_rate", error_rate, low=0, high=0.5)
    _check.some_known(caller, scores.n_known)
    n, counts = scores.n_known, ranking_counts(scores)
    rank = floor(_check.fraction(error_rate) * (n + 1))
    start = last = counts.values.size
    interval = None
    if rank:
        start = int(np.searchsorted(counts.known, n + 1 - rank))
        last = int(np.searchsorted(counts.known, counts.known[start], "right")) - 1
        tails = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
        low, high = scipy.stats.beta.ppf(tails, rank, n + 1 - rank).tolist()
        interval = Interval(low, high, CONFIDENCE, "Beta")
    span = _span(counts.values, start, last)
    # What a new known sample meets on average (ties only lower it).
    rate = Rate("false_unknown", rank / (n + 1), interval)
    return _made("conformal", scores, span.high, span, rate, target=float(error_rate))


def _weight(name: str, scores: Scores, alpha: Alpha) -> Fraction:
    """Check the arguments of objectives that weigh both sides; return the weight."""
    caller = f"thresholds.{name}"
    need_both_sides(caller, scores)
    return weight_of(caller, alpha, scores.n_known, scores.n_unknown)


def _cost(name: str, value: float) -> Fraction:
    _check.number("thresholds.by_cost", name, value, low=0, high=_MOST_COST)
    return _check.fraction(value)


def _span(values: Floats, first: int, last: int) -> Span:
    """Return the thresholds that accept as many levels as one of these."""
    high, low = np.append(values, -np.inf)[[first, min(last + 1, values.size)]].tolist()
    return Span(low, high)


def _share(name: str, hits: int, n: int) -> Rate:
    return Rate(name, hits / n, wilson(hits, n, CONFIDENCE))


def _made(  # the same five in each
    method: str, scores: Scores, value: float, span: Span, rate: Rate, **facts: float
) -> Threshold:
    return Threshold(
        value=value,
        method=method,
        n=Count(scores.n_known, scores.n_unknown),
        interval=span,
        rate=rate,
        fingerprint=Fingerprint.of(scores),
        **facts,
    )
