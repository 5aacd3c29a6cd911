"""A threshold for kinds of unknowns that are not among the calibration data."""

import numpy as np

from openset import _check
from openset.metrics.counts import ranking_counts
from openset.scores import Scores, need_scores
from openset.thresholds._fingerprint import Fingerprint
from openset.thresholds._threshold import Count, Rate, Span, Threshold
from openset.thresholds.alpha import Alpha
from openset.thresholds.anchor import ANCHOR, STRENGTH, anchored_share
from openset.thresholds.groups import by_group
from openset.thresholds.intervals import of_osa
from openset.thresholds.kinds import kinds_of


def anchored(
    scores: Scores,
    alpha: Alpha = None,
    *,
    anchor: float = ANCHOR,
    strength: float = STRENGTH,
) -> Threshold:
    r"""Threshold for new kinds of unknowns: the best one, pulled towards an anchor.

    The threshold accepts the share t of the known calibration samples:

    .. math:: t = \Phi\Bigl(\frac{k\,\Phi^{-1}(t^*) + w\,\Phi^{-1}(a\,\mathrm{ACC})}
              {k + w}\Bigr)

    where :math:`t^*` is the share accepted by the threshold with the best open-set
    accuracy (every kind of unknowns counts the same), ACC the closed-set accuracy, a
    the `anchor`, w its `strength`, Φ the normal distribution function and k the number
    of kinds of unknowns that differ beyond noise
    (:func:`openset.thresholds.kinds.kinds_of`). The more kinds agree, the less the
    anchor matters. Use it if you expect kinds of unknowns that are not among the
    calibration data; for those that are, :func:`osa` is best.

    Parameters
    ----------
    scores
        Known validation samples and surrogate unknowns, with groups that name their
        kinds.
    alpha
        Weight of the known samples, as in :func:`osa`.
    anchor
        The share of known samples to accept if no kind of unknowns were given, as a
        share of the closed-set accuracy.
    strength
        Weight of the anchor, as a number of kinds of unknowns.

    Examples
    --------
    >>> known = [*range(20, 40), *range(20)]
    >>> scores = Scores(labels=[0] * 20 + [-1] * 20, predicted=[0] * 40, known=known)
    >>> anchored(scores).value, anchored(scores, strength=0).value
    (21.0, 20.0)
    """
    caller = "thresholds.anchored"
    need_scores(caller, scores)
    _check.number(caller, "anchor", anchor, low=0, high=1, open_low=True)
    _check.number(caller, "strength", strength, low=0)
    table = by_group(caller, scores, alpha)
    kinds = kinds_of(scores, table)
    counts = ranking_counts(scores)
    values, weight = table.values, table.alpha
    first = counts.values.size - values.size
    osa = weight * table.ccr + (1 - weight) * kinds.pooled(table.urr).mean(axis=0)
    # Of equal ones the smallest threshold; sums of shares round: no difference.
    best = values.size - 1 - int(np.round(osa, 12)[::-1].argmax())
    share = counts.known[first:] / counts.n_known
    wanted = anchored_share(
        share[best],
        float(counts.accuracy),
        len(kinds),
        anchor=anchor,
        strength=strength,
    )
    level = best if strength == 0 else int(np.abs(share - wanted).argmin())
    value = float(values[level])
    rates = counts.rates(value)
    low = float(values[level + 1]) if level + 1 < values.size else -np.inf
    return Threshold(
        value=value,
        method="anchored",
        target=anchor,
        n=Count(scores.n_known, scores.n_unknown),
        interval=Span(low, value),
        rate=Rate("osa", rates.osa(weight), of_osa(rates, weight)),
        alpha=weight,
        fingerprint=Fingerprint.of(scores),
    )
