"""The threshold that is best for the most difficult group of unknowns."""

from typing import Literal

import numpy as np

from openset import _check
from openset.metrics.counts import Prefer, best_level, ranking_counts
from openset.scores import Scores, need_scores
from openset.thresholds._fingerprint import Fingerprint
from openset.thresholds._osa import AT, PREFER
from openset.thresholds._threshold import At, Count, Rate, Span, Threshold, inside
from openset.thresholds.alpha import Alpha
from openset.thresholds.groups import by_group
from openset.thresholds.intervals import of_osa


def worst_group(
    scores: Scores,
    alpha: Alpha = None,
    *,
    criterion: Literal["regret", "osa"] = "regret",
    prefer: Prefer = "smallest",
    at: At = "score",
) -> Threshold:
    r"""Threshold with the smallest loss on the group of unknowns that loses most.

    .. math:: \min_\theta \max_g \bigl(\max_t \mathrm{OSA}_g(t)
              - \mathrm{OSA}_g(\theta)\bigr)
              \quad\text{or}\quad \max_\theta \min_g \mathrm{OSA}_g(\theta)

    where :math:`\mathrm{OSA}_g` is the open-set accuracy of all known samples against
    group g alone. The threshold of :func:`osa` is best for the mixture of unknowns in
    the calibration data; this one is safer if only one kind of them occurs in
    operation.

    Parameters
    ----------
    scores
        Known validation samples and surrogate unknowns, with groups.
    alpha
        Weight of the known samples, the same for all groups; as in :func:`osa`.
    criterion
        ``"regret"`` (the first formula): minimise the largest loss of a group, compared
        with the best threshold for that group alone. ``"osa"`` (the second): maximise
        the accuracy on the hardest group; the other groups are then ignored.
    prefer, at
        As in :func:`osa`.

    Examples
    --------
    >>> scores = Scores(
    ...     labels=[0, 0, 0, -1, -1],
    ...     predicted=[0] * 5,
    ...     known=[5, 4, 2, 3, 1],
    ...     groups=["", "", "", "near", "far"],
    ... )
    >>> worst_group(scores, 0.5).value
    4.0
    """
    caller = "thresholds.worst_group"
    need_scores(caller, scores)
    _check.one_of(caller, "criterion", criterion, ["regret", "osa"])
    _check.one_of(caller, "prefer", prefer, PREFER)
    _check.one_of(caller, "at", at, AT)
    counts = ranking_counts(scores)
    table = by_group(caller, scores, alpha)
    worst = (
        -table.regret.max(axis=0) if criterion == "regret" else table.osa.min(axis=0)
    )
    # Sums of shares round: a trillionth is no difference.
    level, start, stop, _ = best_level(table.values, np.round(worst, 12), prefer=prefer)
    values = np.append(table.values, -np.inf)
    span = Span(float(values[stop]), float(values[start]))
    value = inside(span, float(values[level]), at)
    # Thresholds that are as good for the worst group need not be for the hardest.
    level = int(np.searchsorted(-table.values, -value, side="right")) - 1
    hardest = int(table.osa[:, level].argmin())
    n_hardest = int(table.n[hardest])
    rates = counts.rates(value).against(
        n_unknown=n_hardest,
        n_rejected_unknown=round(table.urr[hardest, level] * n_hardest),
    )
    return Threshold(
        value=value,
        method="worst_group",
        target=table.alpha,
        n=Count(scores.n_known, scores.n_unknown),
        interval=span,
        rate=Rate(
            "osa of the hardest group",
            float(table.osa[hardest, level]),
            of_osa(rates, table.alpha),
        ),
        alpha=table.alpha,
        fingerprint=Fingerprint.of(scores),
    )
