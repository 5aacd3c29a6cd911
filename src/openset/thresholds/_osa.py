"""The threshold with the largest open-set accuracy."""

from openset import _check
from openset.metrics.counts import Prefer, ranking_counts
from openset.metrics.curves import optimum
from openset.scores import Scores, need_scores
from openset.thresholds._fingerprint import Fingerprint
from openset.thresholds._threshold import At, Count, Rate, Span, Threshold, inside
from openset.thresholds.alpha import Alpha, weight_of
from openset.thresholds.intervals import of_osa

AT = ("score", "middle")
PREFER = ("smallest", "highest", "widest")


def osa(
    scores: Scores,
    alpha: Alpha = None,
    *,
    prefer: Prefer = "smallest",
    at: At = "score",
) -> Threshold:
    r"""Threshold with the largest open-set accuracy on calibration scores.

    .. math:: \theta^* = \arg\max_\theta\; \alpha\,\mathrm{CCR}(\theta)
              + (1 - \alpha)\,\mathrm{URR}(\theta)

    Candidates are all distinct scores and +inf (reject all).

    Parameters
    ----------
    scores
        Known validation samples together with *surrogate* unknowns, none of them in the
        test set.
    alpha
        Weight of the known samples, by default 0.5: the share of known samples you
        expect in operation. ``"counts"`` takes their share in the calibration data.
    prefer
        Which optimum to take when there are several: the ``"smallest"`` threshold,
        the ``"highest"``, or the ``"widest"`` optimal interval.
    at
        Where to place the threshold in the interval of optimal ones: at a ``"score"``
        of the data, as published, or in the ``"middle"``, away from the nearest
        samples.

    References
    ----------
    Cruz et al., "Operational open-set recognition and PostMax refinement", ECCV 2024.

    Examples
    --------
    >>> scores = Scores(labels=[0, 0, -1, -1], predicted=[0] * 4, known=[4, 3, 2, 1])
    >>> osa(scores).value, osa(scores, at="middle").value
    (3.0, 2.5)
    """
    caller = "thresholds.osa"
    need_scores(caller, scores)
    _check.one_of(caller, "at", at, AT)
    _check.one_of(caller, "prefer", prefer, PREFER)
    _check.both_sides(caller, scores.n_known, scores.n_unknown)
    weight = weight_of(caller, alpha, scores)
    counts = ranking_counts(scores)
    best = optimum(counts, alpha=weight, prefer=prefer)
    span = Span(best.low, best.high)
    value = inside(span, best.threshold, at)
    interval = of_osa(counts.rates(value), best.alpha)
    return Threshold(
        value=value,
        method="osa",
        target=best.alpha,
        n=Count(scores.n_known, scores.n_unknown),
        interval=span,
        rate=Rate("osa", best.value, interval),
        alpha=best.alpha,
        fingerprint=Fingerprint.of(scores),
    )
