"""A bound on the share of known samples rejected, without any unknown samples."""

from math import floor

import numpy as np
import scipy  # whose parts are imported when first used

from openset import _check
from openset.metrics import Interval
from openset.metrics.counts import ranking_counts
from openset.scores import Scores, need_scores
from openset.thresholds._fingerprint import Fingerprint
from openset.thresholds._threshold import Count, Rate, Span, Threshold
from openset.thresholds.intervals import CONFIDENCE


def conformal(
    scores: Scores, error_rate: float = 0.05, *, confidence: float | None = None
) -> Threshold:
    r"""Threshold that rejects a new known sample with probability at most `error_rate`.

    .. math:: \theta = k_{(r)}, \quad r = \lfloor \epsilon\,(n + 1) \rfloor
              \quad\Rightarrow\quad P(k_{n+1} < \theta) \le \frac{r}{n + 1} \le \epsilon

    where :math:`k_{(r)}` is the r-th smallest of n known calibration scores. The bound
    holds for every n and every distribution, as long as the new sample and the known
    calibration samples are exchangeable; unknown samples are not used. With too few
    known samples (r = 0) the bound can only be kept by accepting everything: the
    threshold is -inf.

    Parameters
    ----------
    scores
        Calibration scores; only the known samples count.
    error_rate
        Largest share of known samples to reject, at most 0.5.
    confidence
        The bound above is for the average over calibration sets. Given a confidence,
        the rate of *this* threshold is at most `error_rate` with that probability over
        calibration sets: r is the largest with
        :math:`P(\mathrm{Beta}(r, n + 1 - r) \le \epsilon) \ge` confidence.

    References
    ----------
    Vovk, Gammerman and Shafer, "Algorithmic learning in a random world", 2005; Vovk,
    "Conditional validity of inductive conformal predictors", ACML 2012.

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
    n = scores.n_known
    if confidence is None:
        rank = floor(_check.rate(caller, "error_rate", error_rate) * (n + 1))
    else:
        _check.open_unit(caller, "confidence", confidence)
        ranks = np.arange(1, n + 1)
        # The probability falls with the rank: count those that still hold.
        holds = scipy.stats.beta.cdf(error_rate, ranks, n + 1 - ranks) >= confidence
        rank = int(np.count_nonzero(holds))
    span, interval = Span(-np.inf, -np.inf), None
    if rank:
        counts = ranking_counts(scores)
        value = float(counts.ascending("known", rank - 1))
        n_below = n - int(counts.known[counts.level(value)])
        low = float(counts.ascending("known", n_below - 1)) if n_below else -np.inf
        span = Span(low, value)
        ends = scipy.stats.beta.ppf(
            [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], rank, n + 1 - rank
        )
        interval = Interval(float(ends[0]), float(ends[1]), CONFIDENCE, "Beta")
    return Threshold(
        value=span.high,
        method="conformal",
        target=float(error_rate),
        n=Count(scores.n_known, scores.n_unknown),
        interval=span,
        # What a new known sample meets on average (ties only lower it).
        rate=Rate("false_unknown", rank / (n + 1), interval),
        fingerprint=Fingerprint.of(scores),
    )
