"""Inner, Outer, Halfpoint and Overall scores, and the balance of the data.

References
----------
Komorniczak and Ksieniewicz, "Taking class imbalance into account in open set
recognition evaluation", 2024.
"""

from typing import Literal

import numpy as np

from openset.metrics.counts import class_counts, ratio
from openset.metrics.registry import At, best, metric, variant
from openset.metrics.sums import Numbers
from openset.scores import Scores

Base = Literal["balanced_accuracy", "accuracy", "f1"]


@metric(
    "Inner score", short="Inner", aliases=("inner",), needs=("known",), kind="closed"
)
def inner_score(scores: Scores, *, base: Base = "balanced_accuracy") -> float:
    r"""Inner score: classification of the known samples, without rejection.

    Parameters
    ----------
    scores
        Labelled scores with known samples.
    base
        ``"balanced_accuracy"``: mean recall over the classes that occur;
        ``"accuracy"``; or ``"f1"``: mean F-score over the classes that occur.

    References
    ----------
    Komorniczak and Ksieniewicz, "Taking class imbalance into account in open set
    recognition evaluation", 2024.

    Examples
    --------
    >>> inner_score(
    ...     Scores(labels=[0, 0, 1, -1], predicted=[0, 1, 1, 0], known=[4, 3, 2, 1])
    ... )
    0.75
    """
    c = class_counts(scores, -np.inf)
    if base == "accuracy":
        return ratio(c.closed_hits.sum(axis=-1), c.n_known)
    return _mean(base, c.closed_hits, c.closed_false, c.support)


@metric("Outer score", short="Outer", aliases=("outer",), kind="threshold")
def outer_score(
    scores: Scores, threshold: float, *, base: Base = "balanced_accuracy"
) -> float:
    r"""Outer score: known against unknown, ignoring classes.

    With balanced accuracy this is (TPR + URR)/2: the mean of the shares of known
    samples accepted and of unknown samples rejected. With ``"f1"`` it is the F-score of
    accepting known samples.

    Examples
    --------
    >>> outer_score(
    ...     Scores(labels=[0, 0, 1, -1], predicted=[0, 1, 1, 0], known=[4, 3, 1, 2]), 2
    ... )
    0.3333333333333333
    """
    c = class_counts(scores, threshold)
    accepted, rejected = c.accepted_known, c.rejected_unknown
    if base == "accuracy":
        return ratio(accepted + rejected, c.n)
    if base == "f1":
        return ratio(2 * accepted, accepted + c.accepted_unknown + c.n_known)
    return (ratio(accepted, c.n_known) + ratio(rejected, c.n_unknown)) / 2


@metric(
    "Halfpoint score",
    short="Halfpoint",
    aliases=("halfpoint",),
    needs=("known",),
    kind="threshold",
)
def halfpoint_score(
    scores: Scores,
    threshold: At,
    *,
    base: Base = "balanced_accuracy",
    absent: Literal["skip", "zero"] = "skip",
) -> float:
    r"""Halfpoint score: the known samples, where rejecting one is an error.

    Unknown samples are not counted. The mean is over the K known classes by default,
    and over K + 1 classes with ``absent="zero"``, as in Table 1 of the class-imbalance
    paper (reported as ``halfpoint_k_plus_1``).

    Parameters
    ----------
    scores
        Labelled scores with known samples.
    threshold
        A sample is accepted iff its knownness is at least this.
    base
        As in :func:`inner_score`.
    absent
        How the class "unknown" counts, which has no samples here. ``"skip"``: not at
        all. ``"zero"``: as 0, in the mean over K + 1 classes. The value is then K / (K
        + 1) times the other, and below 1 for a perfect classifier; Table 1 of the paper
        was computed this way.

    References
    ----------
    Komorniczak and Ksieniewicz, "Taking class imbalance into account in open set
    recognition evaluation", 2024.

    Examples
    --------
    >>> scores = Scores(labels=[0, 1, 1, 1], predicted=[0, 1, 1, 1], known=[4, 3, 2, 1])
    >>> halfpoint_score(scores, 2), round(halfpoint_score(scores, 2, absent="zero"), 4)
    (0.8333333333333333, 0.5556)
    >>> halfpoint_score(scores, 0), round(halfpoint_score(scores, 0, absent="zero"), 4)
    (1.0, 0.6667)
    """
    c = class_counts(scores, threshold)
    if base == "accuracy":
        return ratio(c.n_hits, c.n_known)
    return _mean(base, c.hits, c.false_known, c.support, more=int(absent == "zero"))


@metric(
    "Overall score",
    short="Overall",
    aliases=("overall",),
    needs=("known",),
    kind="threshold",
)
def overall_score(
    scores: Scores, threshold: At, *, base: Base = "balanced_accuracy"
) -> float:
    r"""Overall score: over the known classes, with "unknown" as one more class.

    With balanced accuracy it is the mean recall over the K + 1 classes; the recall of
    "unknown" is :func:`urr`. Without unknown samples it equals :func:`halfpoint_score`.

    Examples
    --------
    >>> overall_score(
    ...     Scores(labels=[0, 1, -1, -1], predicted=[0, 1, 1, 0], known=[4, 3, 2, 1]), 2
    ... )
    0.8333333333333334
    """
    c = class_counts(scores, threshold)
    if base == "accuracy":
        return ratio(c.n_hits + c.rejected_unknown, c.n)
    hits, false, support = (
        np.append(of_class, np.asarray(of_unknown)[..., None], axis=-1)
        for of_class, of_unknown in (
            (c.hits, c.rejected_unknown),
            (c.false, c.n_known - c.accepted_known),
            (c.support, c.n_unknown),
        )
    )
    return _mean(base, hits, false, support)


def _mean(
    base: Base, hits: Numbers, false: Numbers, support: Numbers, *, more: int = 0
) -> Numbers:
    """Mean recall or F-score over the classes that occur, and `more` that have 0.

    For recall a class occurs if it has samples (scikit-learn's balanced accuracy), for
    the F-score also if it is only predicted.
    """
    whole = hits + false + support if base == "f1" else support
    value = ratio(2 * hits if base == "f1" else hits, whole)
    return ratio(value.sum(axis=-1), (whole > 0).sum(axis=-1) + more)


variant(
    "halfpoint_score",
    "halfpoint_k_plus_1",
    "Halfpoint score, mean over K + 1 classes",
    "Halfpoint, K + 1",
    aliases=("halfpoint_paper",),
    absent="zero",
)
best("halfpoint_score", "overall_score")


@metric(
    "Known samples per unknown sample",
    short="known per unknown",
    kind="data",
    better="neither",
    bounds=None,
    takes_counts=False,
)
def imbalance_ratio(scores: Scores) -> float:
    r"""Return the number of known samples per unknown sample.

    If it is far from 1, accuracy and F-scores of known against unknown are misleading.

    Examples
    --------
    >>> imbalance_ratio(Scores(labels=[0, 1, -1], predicted=[0, 1, 1], known=[3, 2, 1]))
    2.0
    """
    return scores.n_known / scores.n_unknown
