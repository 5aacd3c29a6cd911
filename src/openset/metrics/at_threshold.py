"""Metrics of the decisions at a threshold: a sample is accepted iff known >= it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from openset.metrics.counts import (
    ALPHA,
    Alpha,
    class_counts,
    positions,
    ratio,
    weight_of,
)
from openset.metrics.registry import Rate, metric
from openset.scores import Scores


@metric
def ccr(scores: Scores, threshold: float) -> float:
    r"""Correct classification rate: known samples accepted and classified correctly.

    .. math:: \mathrm{CCR}(\theta) = \frac{1}{N_k} \sum_{i \in K}
              [\hat y_i = y_i][s_i \ge \theta]

    References
    ----------
    Dhamija, Günther and Boult, "Reducing network agnostophobia", NeurIPS 2018.

    Examples
    --------
    >>> ccr(Scores(labels=[0, 0, -1], predicted=[0, 1, 0], known=[3, 2, 1]), 2)
    0.5
    """
    c = class_counts(scores, threshold)
    return c.n_hits / c.n_known


@metric
def urr(scores: Scores, threshold: float) -> float:
    r"""Unknown rejection rate: unknown samples that score below the threshold.

    .. math:: \mathrm{URR}(\theta) = \frac{1}{N_u} \sum_{j \in U} [s_j < \theta]

    References
    ----------
    Cruz et al., "Operational open-set recognition and PostMax refinement", ECCV 2024.

    Examples
    --------
    >>> urr(Scores(labels=[0, -1, -1], predicted=[0, 1, 0], known=[3, 2, 1]), 2)
    0.5
    """
    c = class_counts(scores, threshold)
    return c.rejected_unknown / c.n_unknown


@metric
def osa(scores: Scores, threshold: float, *, alpha: Alpha = ALPHA) -> float:
    r"""Open-set accuracy: weighted mean of the rates :func:`ccr` and :func:`urr`.

    .. math:: \mathrm{OSA}(\theta) = \alpha\,\mathrm{CCR}(\theta)
              + (1 - \alpha)\,\mathrm{URR}(\theta)

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    threshold
        A sample is accepted iff its knownness is at least this.
    alpha
        Weight of the known samples. ``"counts"``: their share of all samples, which
        makes OSA the accuracy over the known classes and "unknown", as in the paper.

    References
    ----------
    Cruz et al., "Operational open-set recognition and PostMax refinement", ECCV 2024.

    Examples
    --------
    >>> scores = Scores(labels=[0, 0, -1], predicted=[0, 1, 0], known=[3, 2, 1])
    >>> osa(scores, 2), round(osa(scores, 2, alpha="counts"), 4)
    (0.75, 0.6667)
    """
    c = class_counts(scores, threshold)
    if alpha == "counts":  # one division: the value is as exact as a float can be
        return (c.n_hits + c.rejected_unknown) / c.n
    weight = weight_of("osa", alpha, 1, 1)
    hits, rejected = c.n_hits / c.n_known, c.rejected_unknown / c.n_unknown
    return float(weight) * hits + float(1 - weight) * rejected


@metric
def f_score(
    scores: Scores,
    threshold: float,
    *,
    average: Literal["macro", "macro_f", "micro"] = "macro",
) -> float:
    r"""Harmonic mean of precision and recall over the known classes.

    .. math:: F = \frac{2 P R}{P + R}, \quad
              P = \frac1C \sum_c \frac{TP_c}{TP_c + FP_c}, \quad
              R = \frac1C \sum_c \frac{TP_c}{TP_c + FN_c}

    Accepted unknowns are false positives of their predicted class, rejected known
    samples are false negatives of their true class; 0/0 is 0.

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    threshold
        A sample is accepted iff its knownness is at least this.
    average
        ``"macro"``: precision and recall are averaged over classes, then combined
        (OpenAUC paper, eq. 1-2). ``"macro_f"``: the mean of the classes' F-scores
        (scikit-learn). ``"micro"``: counts are pooled (eq. 3).

    Examples
    --------
    >>> scores = Scores(labels=[0, 1, -1], predicted=[0, 1, 1], known=[3, 2, 1])
    >>> f_score(scores, 2), round(f_score(scores, 1, average="micro"), 4)
    (1.0, 0.8)
    """
    c = class_counts(scores, threshold)
    predicted = c.hits + c.false
    if average == "macro_f":
        return ratio(2 * c.hits, predicted + c.support).mean(axis=-1)
    if average == "micro":
        return ratio(2 * c.n_hits, predicted.sum(axis=-1) + c.n_known)
    precision = ratio(c.hits, predicted).mean(axis=-1)
    recall = ratio(c.hits, c.support).mean(axis=-1)
    return ratio(2 * precision * recall, precision + recall)


@metric
def youden(
    scores: Scores, threshold: float, *, kind: Literal["classes", "binary"] = "classes"
) -> float:
    r"""Youden's index: true positive rate plus true negative rate, minus one.

    .. math:: J = \frac1C \sum_c \Bigl(\frac{TP_c}{TP_c + FN_c}
              + \frac{TN_c}{TN_c + FP_c}\Bigr) - 1

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    threshold
        A sample is accepted iff its knownness is at least this.
    kind
        ``"classes"``: both rates are one-against-rest averages over the known classes
        (OpenAUC paper, eq. 4); with many classes the second rate is always close to 1.
        ``"binary"``: known against unknown, TPR - FPR.

    Examples
    --------
    >>> scores = Scores(labels=[0, 1, -1], predicted=[0, 1, 1], known=[3, 2, 1])
    >>> youden(scores, 1), youden(scores, 1, kind="binary")
    (0.75, 0.0)
    """
    c = class_counts(scores, threshold)
    if kind == "binary":
        tpr = ratio(c.accepted_known, c.n_known)
        return tpr - ratio(c.accepted_unknown, c.n_unknown)
    recall = ratio(c.hits, c.support).mean(axis=-1)
    negatives = np.asarray(c.n)[..., None] - c.support
    return recall + ratio(negatives - c.false, negatives).mean(axis=-1) - 1


@metric
def normalized_accuracy(
    scores: Scores,
    threshold: float,
    *,
    balance: Rate = 0.5,
    aus: Literal["precision", "recall"] = "precision",
) -> float:
    r"""Weighted mean of the accuracies on known (AKS) and unknown (AUS) samples.

    .. math:: \mathrm{NAcc} = \lambda\,\mathrm{AKS} + (1 - \lambda)\,\mathrm{AUS},
              \quad \mathrm{AKS} = \frac{\sum_c (TP_c + TN_c)}
              {\sum_c (TP_c + TN_c + FP_c + FN_c)}

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    threshold
        A sample is accepted iff its knownness is at least this.
    balance
        The weight λ.
    aus
        What AUS is. ``"precision"``: the share of unknown samples among the rejected
        ones, as printed in the OpenAUC paper (eq. 6); ``"recall"``: the share of
        unknown samples that are rejected, as its name says. 0/0 is 0.

    Examples
    --------
    >>> scores = Scores(labels=[0, 1, -1], predicted=[0, 1, 1], known=[3, 1, 2])
    >>> normalized_accuracy(scores, 3, aus="recall")
    0.9166666666666667
    """
    c = class_counts(scores, threshold)
    wrong = c.false.sum(axis=-1) + c.n_known - c.n_hits
    on_known = 1 - wrong / (c.support.shape[-1] * c.n)
    whole = c.rejected_unknown + c.n_known - c.accepted_known
    whole = whole if aus == "precision" else c.n_unknown
    return balance * on_known + (1 - balance) * ratio(c.rejected_unknown, whole)


@dataclass(frozen=True, eq=False)
class Confusion:
    """Counts, true class by row and decision by column; the last of each is unknown."""

    matrix: NDArray[np.int64]
    classes: NDArray[np.int64]


@metric
def confusion(scores: Scores, threshold: float) -> Confusion:
    r"""Return the counts of decisions at a threshold, by true class.

    Entry (i, j) counts samples of class i that are accepted as class j; the last row
    holds unknown samples, the last column rejected ones.

    Examples
    --------
    >>> confusion(
    ...     Scores(labels=[0, 1, -1], predicted=[0, 1, 1], known=[3, 1, 2]), 2
    ... ).matrix
    array([[1, 0, 0],
           [0, 0, 1],
           [0, 1, 0]])
    """
    label, predicted = positions(scores)
    size = scores.classes.size + 1
    decided = np.where(scores.known >= threshold, predicted, size - 1)
    counts = np.bincount(label * size + decided, minlength=size * size)
    return Confusion(counts.reshape(size, size), scores.classes)
