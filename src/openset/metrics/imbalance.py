"""Inner, Outer, Halfpoint and Overall scores, and the balance of the data.

References
----------
Komorniczak and Ksieniewicz, "Taking class imbalance into account in open set
recognition evaluation", 2024.
"""

from typing import Literal

import numpy as np

from openset.metrics.counts import class_counts, ratio
from openset.metrics.registry import metric
from openset.metrics.sums import Numbers
from openset.scores import Scores


@metric
def inner_score(scores: Scores) -> float:
    r"""Inner score: classification of the known samples, without rejection.

    It is the balanced accuracy: the mean recall over the classes that occur.

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
    return _mean_recall(c.closed_hits, c.support)


@metric
def outer_score(scores: Scores, threshold: float) -> float:
    r"""Outer score: known against unknown, ignoring classes.

    It is (TPR + URR)/2: the mean of the shares of known samples accepted and of unknown
    samples rejected.

    Examples
    --------
    >>> outer_score(
    ...     Scores(labels=[0, 0, 1, -1], predicted=[0, 1, 1, 0], known=[4, 3, 1, 2]), 2
    ... )
    0.3333333333333333
    """
    c = class_counts(scores, threshold)
    tpr, urr = (
        ratio(c.accepted_known, c.n_known),
        ratio(c.rejected_unknown, c.n_unknown),
    )
    return (tpr + urr) / 2


@metric
def halfpoint_score(
    scores: Scores, threshold: float, *, absent: Literal["skip", "zero"] = "skip"
) -> float:
    r"""Halfpoint score: the known samples, where rejecting one is an error.

    Unknown samples are not counted. It is the mean recall over the K known classes that
    occur by default, and over K + 1 classes with ``absent="zero"``, as in Table 1 of
    the class-imbalance paper (reported as ``halfpoint_k_plus_1``).

    Parameters
    ----------
    scores
        Labelled scores with known samples.
    threshold
        A sample is accepted iff its knownness is at least this.
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
    return _mean_recall(c.hits, c.support, more=int(absent == "zero"))


@metric
def overall_score(scores: Scores, threshold: float) -> float:
    r"""Overall score: over the known classes, with "unknown" as one more class.

    It is the mean recall over the K + 1 classes; the recall of "unknown" is
    :func:`urr`. Without unknown samples it equals :func:`halfpoint_score`.

    Examples
    --------
    >>> overall_score(
    ...     Scores(labels=[0, 1, -1, -1], predicted=[0, 1, 1, 0], known=[4, 3, 2, 1]), 2
    ... )
    0.8333333333333334
    """
    c = class_counts(scores, threshold)
    hits, support = (
        np.append(of_class, np.asarray(of_unknown)[..., None], axis=-1)
        for of_class, of_unknown in (
            (c.hits, c.rejected_unknown),
            (c.support, c.n_unknown),
        )
    )
    return _mean_recall(hits, support)


def _mean_recall(hits: Numbers, support: Numbers, *, more: int = 0) -> Numbers:
    """Mean recall over the classes that have samples, and `more` that have recall 0."""
    recall = ratio(hits, support)
    return ratio(recall.sum(axis=-1), (support > 0).sum(axis=-1) + more)


@metric
def imbalance_ratio(scores: Scores) -> float:
    r"""Return the number of known samples per unknown sample.

    If it is far from 1, accuracy and F-scores of known against unknown are misleading.

    Examples
    --------
    >>> imbalance_ratio(Scores(labels=[0, 1, -1], predicted=[0, 1, 1], known=[3, 2, 1]))
    2.0
    """
    return scores.n_known / scores.n_unknown
