"""Metrics that need no threshold: how well scores order known and unknown samples."""

from math import ceil, floor
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics.counts import RankingCounts, ranking_counts
from openset.metrics.registry import PositiveRate, Rate, metric
from openset.metrics.sums import Numbers, blocks, dot
from openset.scores import Scores

Side = Literal["known", "unknown"]
Ties = Literal["half", "strict", "optimistic"]
_CREDIT = {"strict": 0.0, "half": 0.5, "optimistic": 1.0}


@metric
def accuracy(scores: Scores) -> float:
    r"""Share of known samples that are classified correctly, without rejection.

    .. math:: \mathrm{Acc} = \frac{1}{N_k} \sum_{i \in K} [\hat y_i = y_i]

    Examples
    --------
    >>> accuracy(Scores(labels=[0, 1, -1], predicted=[0, 0, 1], known=[3, 2, 1]))
    0.5
    """
    if isinstance(scores, Scores):  # needs no sort
        return np.count_nonzero(scores.is_correct) / scores.n_known
    return scores.closed_hits.sum(axis=-1) / scores.n_known


@metric
def auroc(scores: Scores) -> float:
    r"""Share of (known, unknown) pairs in which the known sample scores higher.

    .. math:: \frac{1}{N_k N_u} \sum_{i \in K} \sum_{j \in U}
              \bigl([s_i > s_j] + \tfrac12 [s_i = s_j]\bigr)

    Classes are ignored: a misclassified known sample with a high score counts in full.
    Only the ranks of scores matter, so scores may have any range.

    Examples
    --------
    >>> auroc(Scores(labels=[0, 0, -1], predicted=[0, 1, 0], known=[0.9, 0.2, 0.2]))
    0.75
    """
    c = ranking_counts(scores)
    return c.sums.known.mean(c.n_known * c.n_unknown)


@metric
def openauc(scores: Scores, *, ties: Ties = "half") -> float:
    r"""Share of pairs whose known sample is classified correctly and ranked first.

    .. math:: \frac{1}{N_k N_u} \sum_{i \in K} \sum_{j \in U} [\hat y_i = y_i]
              \bigl([s_i > s_j] + \tau [s_i = s_j]\bigr)

    It is the area under :func:`oscr_curve`, at most the closed-set accuracy, and
    accuracy times the AUROC of the correct known samples.

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    ties
        Credit :math:`\tau` of a tied pair: ``"half"`` (½: the trapezoid area, and what
        public implementations return), ``"strict"`` (0: the formula as printed) or
        ``"optimistic"`` (1). The three agree if no correctly classified known sample
        has the score of an unknown one.

    References
    ----------
    Wang et al., "OpenAUC: towards AUC-oriented open-set recognition", NeurIPS 2022.

    Examples
    --------
    >>> labels, predicted = [0, 1, 1, -1], [0, 1, 0, 0]
    >>> scores = Scores(labels=labels, predicted=predicted, known=[0.9, 0.4, 0.8, 0.4])
    >>> openauc(scores)
    0.5
    >>> round(openauc(scores, ties="strict"), 4)
    0.3333
    """
    c = ranking_counts(scores)
    return c.sums.correct.mean(c.n_known * c.n_unknown, _CREDIT[ties])


@metric
def partial_openauc(scores: Scores, max_fpr: PositiveRate = 0.1) -> float:
    r"""Mean height of the OSCR curve where few unknowns are accepted, FPR ≤ β.

    .. math:: \frac1\beta \int_0^\beta \mathrm{CCR} \, d\,\mathrm{FPR}
              \;\le\; \mathrm{Acc}

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    max_fpr
        The bound β, in (0, 1]; it cuts a tied segment linearly. With β = 1 this is
        :func:`openauc`.

    Examples
    --------
    >>> scores = Scores(
    ...     labels=[0, 0, -1, -1], predicted=[0, 0, 0, 0], known=[4.0, 2.0, 3.0, 1.0]
    ... )
    >>> partial_openauc(scores, 0.5), partial_openauc(scores, 1.0)
    (0.5, 0.75)
    """
    c = ranking_counts(scores)
    budget = float(_check.fraction(max_fpr) * c.n_unknown)
    area: Numbers = np.zeros(c.unknown.shape[:-1])
    for block in blocks(c):
        # Width of each step within FPR ≤ β, and its share of the whole step.
        unknown = block.unknown_above + block.d_unknown
        width = np.minimum(unknown, budget)
        width -= np.minimum(block.unknown_above, budget)
        share = width / np.where(block.d_unknown > 0, block.d_unknown, 1)
        area += dot(width, block.correct_above + share / 2 * block.d_correct)
        if np.all(unknown[..., -1] >= budget):
            break
    return area / (c.n_known * c.n_unknown) / float(max_fpr)


@metric
def fpr_at_tpr(
    scores: Scores, tpr: PositiveRate = 0.95, *, positive: Side = "known"
) -> float:
    r"""Return the false positive rate where the true positive rate is at least `tpr`.

    .. math:: \mathrm{FPR}(\theta), \qquad
              \theta = \max \{\theta' : \mathrm{TPR}(\theta') \ge \mathrm{tpr}\}

    With ``positive="known"`` the threshold θ is the largest one that accepts at least
    the share `tpr` (95 %) of the known samples, and the value is the share of unknown
    samples accepted there. With ``positive="unknown"`` the roles are swapped: θ is the
    smallest one that rejects at least 95 % of the unknown samples, and the value is the
    share of known samples rejected. The two differ, and papers use either: state which
    one you report. No interpolation: at least ``ceil(tpr
    * n)`` positives are found.

    Examples
    --------
    >>> scores = Scores(
    ...     labels=[0, 0, 0, -1, -1], predicted=[0] * 5, known=[5, 3, 1, 4, 2]
    ... )
    >>> fpr_at_tpr(scores, 0.5), fpr_at_tpr(scores, 0.5, positive="unknown")
    (0.5, 0.3333333333333333)
    """
    _, false, _, n_negative = _at_rate(ranking_counts(scores), tpr, positive)
    return false / n_negative


@metric
def error_at_tpr(
    scores: Scores,
    tpr: PositiveRate = 0.95,
    *,
    positive: Side = "known",
    average: Literal["balanced", "pooled"] = "balanced",
) -> float:
    r"""Return the detection error at the threshold of :func:`fpr_at_tpr`.

    ``average="balanced"`` is (1 - TPR)/2 + FPR/2, with the TPR actually reached;
    ``"pooled"`` is the share of all samples on the wrong side, which depends on the
    proportion of known and unknown samples. Table 5 of the OpenAUC paper is pooled with
    ``positive="unknown"`` (reported as ``error_at_tpr_unknown_pooled``): its values
    exceed what the other three can reach.

    Examples
    --------
    >>> scores = Scores(
    ...     labels=[0, 0, -1, -1], predicted=[0] * 4, known=[4, 2, 3, 1]
    ... )
    >>> error_at_tpr(scores, 0.5)
    0.25
    """
    found, false, n_positive, n_negative = _at_rate(
        ranking_counts(scores), tpr, positive
    )
    if average == "balanced":
        return (1 - found / n_positive) / 2 + false / n_negative / 2
    return (n_positive - found + false) / (n_positive + n_negative)


def _at_rate(
    c: RankingCounts, tpr: float, positive: Side
) -> tuple[Numbers, Numbers, int, int]:
    """Count true and false positives at the threshold, and both sides."""
    rate, n_known, n_unknown = _check.fraction(tpr), c.n_known, c.n_unknown
    if positive == "known":
        at = last_within(c.known, ceil(rate * n_known) - 1) + 1
        return pick(c.known, at), pick(c.unknown, at), n_known, n_unknown
    # Rejecting means known <= threshold. The smallest sufficient threshold is the score
    # of an unknown: the first below the last level that accepts at most the unknowns
    # that may be missed.
    at = last_within(c.unknown, n_unknown - ceil(rate * n_unknown))
    found, false = n_unknown - pick(c.unknown, at), n_known - pick(c.known, at)
    return found, false, n_unknown, n_known


def last_within(counts: NDArray[Any], most: int) -> NDArray[np.intp]:
    """Index of the last level whose count is at most `most`."""
    if counts.ndim == 1:  # in the dtype of the counts, which avoids converting them all
        found = np.searchsorted(counts, counts.dtype.type(most), side="right")
        return np.asarray(found - 1)
    return (counts <= most).sum(axis=-1) - 1


def pick(counts: NDArray[Any], at: NDArray[np.intp]) -> Numbers:
    """Read the count at one level per replicate."""
    taken = np.take_along_axis(counts, at[..., None], axis=-1)[..., 0]
    return np.asarray(taken, dtype=np.float64)


@metric
def ccr_at_fpr(scores: Scores, fpr: Rate = 0.1) -> float:
    r"""Largest correct classification rate with a false positive rate of at most `fpr`.

    No interpolation: at most ``floor(fpr * n_unknown)`` unknowns are accepted. If `fpr`
    is below ``1 / n_unknown``, no unknown may be accepted, however small `fpr` is.

    Examples
    --------
    >>> scores = Scores(
    ...     labels=[0, 0, -1, -1], predicted=[0] * 4, known=[0.9, 0.4, 0.6, 0.1]
    ... )
    >>> ccr_at_fpr(scores, 0.0), ccr_at_fpr(scores, 0.5)
    (0.5, 1.0)
    """
    c = ranking_counts(scores)
    at = last_within(c.unknown, floor(_check.fraction(fpr) * c.n_unknown))
    return pick(c.correct, at) / c.n_known


@metric
def aupr(
    scores: Scores,
    *,
    positive: Side = "known",
    rule: Literal["step", "trapezoid"] = "step",
) -> float:
    r"""Average precision of finding the positive samples (known ones by default).

    .. math:: \mathrm{AP} = \sum_n (R_n - R_{n-1}) P_n

    with precision P and recall R at each distinct score, most positive first. It
    depends on the share of positives in the data. ``rule="trapezoid"`` joins the points
    by straight lines, as OpenOOD and pytorch-ood do; that is optimistic, especially
    with ties.

    Examples
    --------
    >>> scores = Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[3, 1, 2])
    >>> round(aupr(scores), 4), aupr(scores, positive="unknown")
    (0.8333, 0.5)
    """
    c = ranking_counts(scores)
    if rule == "step" and positive == "known":
        return c.sums.precision_known / c.n_known
    if rule == "step":
        return c.sums.precision_unknown / c.n_unknown
    found, false = c.known, c.unknown
    if positive == "unknown":  # from the lowest score up
        found, false = (
            c.n_unknown - c.unknown[..., ::-1],
            c.n_known - c.known[..., ::-1],
        )
    accepted = found + false  # precision is 1 where it is 0, by convention
    precision = np.where(accepted > 0, found / np.maximum(accepted, 1), 1.0)
    steps = np.diff(found).astype(np.float64)
    area: Numbers = dot(steps, precision[..., 1:] + precision[..., :-1]) / 2
    return area / (c.n_known if positive == "known" else c.n_unknown)


@metric
def acc_times_auroc(scores: Scores) -> float:
    r"""Closed-set accuracy times AUROC.

    It does not tell whether the correctly classified samples are those with high
    scores, so it can stay the same while open-set decisions get worse: Proposition 3 of
    the OpenAUC paper.

    Examples
    --------
    >>> scores = Scores(labels=[0, 0, -1], predicted=[0, 1, 0], known=[3, 1, 2])
    >>> acc_times_auroc(scores)
    0.25
    """
    c = ranking_counts(scores)
    return c.accuracy * c.sums.known.mean(c.n_known * c.n_unknown)


@metric
def acc_plus_auroc(scores: Scores) -> float:
    r"""Closed-set accuracy plus AUROC, in [0, 2].

    Examples
    --------
    >>> scores = Scores(labels=[0, 0, -1], predicted=[0, 1, 0], known=[3, 1, 2])
    >>> acc_plus_auroc(scores)
    1.0
    """
    c = ranking_counts(scores)
    return c.accuracy + c.sums.known.mean(c.n_known * c.n_unknown)
