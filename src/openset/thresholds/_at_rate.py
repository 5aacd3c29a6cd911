"""Thresholds at a given false positive rate or true positive rate."""

from math import ceil, floor

import numpy as np

from openset import _check
from openset._types import UndefinedMetricError
from openset.metrics.counts import RankingCounts, ranking_counts
from openset.scores import Scores, need_scores
from openset.thresholds._fingerprint import Fingerprint
from openset.thresholds._osa import AT
from openset.thresholds._threshold import At, Count, Rate, Span, Threshold, inside
from openset.thresholds.intervals import of_share


def at_fpr(scores: Scores, fpr: float = 0.05, *, at: At = "score") -> Threshold:
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
    _check.one_of(caller, "at", at, AT)
    rate = _check.rate(caller, "fpr", fpr)
    if scores.n_unknown == 0:
        msg = f"{caller}: undefined without unknown samples, got 0 unknown (label -1)"
        raise UndefinedMetricError(msg)
    table = ranking_counts(scores)
    most = floor(rate * scores.n_unknown)
    level = int(np.searchsorted(table.unknown, most, side="right")) - 1
    if level == 0 and table.values[1] == np.inf:
        n_infinite = int(table.unknown[1])
        msg = _check.must(
            f"at least {n_infinite / scores.n_unknown:g}, the share of unknown "
            "samples with knownness +inf, which no threshold rejects",
            caller=caller,
            name="fpr",
            got=fpr,
        )
        raise ValueError(msg)
    return _made(scores, table, level, at=at, rate="fpr", target=float(fpr))


def at_tpr(scores: Scores, tpr: float = 0.95, *, at: At = "score") -> Threshold:
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
    _check.one_of(caller, "at", at, AT)
    rate = _check.rate(caller, "tpr", tpr, open_low=True)
    _check.some_known(caller, scores.n_known)
    table = ranking_counts(scores)
    level = int(np.searchsorted(table.known, ceil(rate * scores.n_known)))
    return _made(scores, table, level, at=at, rate="tpr", target=float(tpr))


def _made(
    scores: Scores,
    table: RankingCounts,
    level: int,
    *,
    at: At,
    rate: str,
    target: float,
) -> Threshold:
    """Make the threshold that accepts the levels up to `level`."""
    values = table.values
    low = float(values[level + 1]) if level + 1 < values.size else -np.inf
    span = Span(low, float(values[level]))
    counts = table.unknown if rate == "fpr" else table.known
    hits, n = int(counts[level]), int(counts[-1])
    return Threshold(
        value=inside(span, float(values[level]), at),
        method=f"at_{rate}",
        target=target,
        n=Count(scores.n_known, scores.n_unknown),
        interval=span,
        rate=Rate(rate, hits / n, of_share(hits, n)),
        fingerprint=Fingerprint.of(scores),
    )
