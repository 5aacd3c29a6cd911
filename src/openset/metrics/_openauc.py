"""OpenAUC, whole and partial: the area under the OSCR curve."""

from dataclasses import replace
from math import inf
from typing import Literal

import numpy as np

from openset import _check
from openset._types import UndefinedMetricError
from openset.metrics._ranking_counts import (
    Floats,
    RankingCounts,
    blocks,
    both_sides,
    dot,
)
from openset.metrics._registry import UNIT, Metric, register
from openset.metrics._variance import pair_variance, partial_variance
from openset.scores import Scores

Ties = Literal["half", "strict", "optimistic"]
Scale = Literal["mean", "area", "mcclish"]
TIE_CREDIT = {"strict": 0.0, "half": 0.5, "optimistic": 1.0}


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
    _check.one_of("openauc", "ties", ties, list(TIE_CREDIT))
    return float(kernel(both_sides("openauc", scores), ties=ties))


def kernel(table: RankingCounts, *, ties: Ties = "half") -> Floats:
    """Compute it for every replicate."""
    pairs, counted = table.n_known * table.n_unknown, table.sums.correct
    return (counted.won + TIE_CREDIT[ties] * counted.tied) / pairs


def variance(table: RankingCounts) -> tuple[float, float]:
    """Return its sampling variance; the normal distribution fits it."""
    return pair_variance(table.sums.correct, table.n_known, table.n_unknown), inf


def partial_openauc(
    scores: Scores,
    max_fpr: float = 0.1,
    *,
    ties: Ties = "half",
    scale: Scale = "mean",
) -> float:
    r"""Area under the OSCR curve where few unknowns are accepted, FPR ≤ β.

    .. math:: P(\beta) = \int_0^\beta \mathrm{CCR} \, d\,\mathrm{FPR}

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    max_fpr
        The bound β, in (0, 1]. With β = 1 this is :func:`openauc`.
    ties
        As in :func:`openauc`; ``"half"`` cuts a tied segment linearly.
    scale
        ``"mean"`` returns P(β)/β, the mean CCR over the range, in [0, accuracy];
        ``"area"`` returns P(β); ``"mcclish"`` stretches it so that chance is ½ and
        perfect ordering 1 (undefined at accuracy 0).

    Examples
    --------
    >>> scores = Scores(
    ...     labels=[0, 0, -1, -1], predicted=[0, 0, 0, 0], known=[4.0, 2.0, 3.0, 1.0]
    ... )
    >>> partial_openauc(scores, 0.5), partial_openauc(scores, 1.0)
    (0.5, 0.75)
    """
    _check.one_of("partial_openauc", "ties", ties, list(TIE_CREDIT))
    _check.one_of("partial_openauc", "scale", scale, ["mean", "area", "mcclish"])
    _check.rate("partial_openauc", "max_fpr", max_fpr, open_low=True)
    table = both_sides("partial_openauc", scores)
    if scale == "mcclish" and table.n_correct == 0:
        msg = "partial_openauc: scale 'mcclish' is undefined at accuracy 0"
        raise UndefinedMetricError(msg)
    return float(partial_kernel(table, max_fpr=max_fpr, ties=ties, scale=scale))


def partial_kernel(
    table: RankingCounts,
    *,
    max_fpr: float = 0.1,
    ties: Ties = "half",
    scale: Scale = "mean",
) -> Floats:
    """Compute it for every replicate."""
    budget = float(_check.fraction(max_fpr) * table.n_unknown)
    area = np.zeros(table.unknown.shape[:-1])
    for block in blocks(table):  # pragma: no branch: the last reaches the budget
        # Width of each step within FPR ≤ β, and its share of the whole step.
        width = np.minimum(block.unknown, budget)
        width -= np.minimum(block.unknown_above, budget)
        share = width / np.where(block.d_unknown > 0, block.d_unknown, 1)
        credit = share / 2 if ties == "half" else TIE_CREDIT[ties]
        area += dot(width, block.correct_above + credit * block.d_correct)
        if np.all(block.unknown[..., -1] >= budget):
            break
    area /= table.n_known * table.n_unknown
    bound = float(max_fpr)
    if scale == "area":
        return area
    if scale == "mean":
        return area / bound
    chance, perfect = bound**2 * table.accuracy / 2, bound * table.accuracy
    return (1 + (area - chance) / (perfect - chance)) / 2


_OPENAUC = Metric(
    openauc,
    label="OpenAUC",
    better="higher",
    bounds=UNIT,
    reference="Wang et al., NeurIPS 2022",
    kernel=kernel,
    variance=variance,
    order=1,
    aliases=("oscr",),  # the area under the OSCR curve
    counts_errors_of="both",
)
register(
    _OPENAUC,
    *(
        replace(
            _OPENAUC,
            key=f"openauc_{ties}",
            label=f"OpenAUC, ties {credit}",
            short=f"OpenAUC, ties {credit}",
            params={"ties": ties},
            variance=None,
            order=order,
            aliases=(),
        )
        for ties, credit, order in (("strict", "lost", 32), ("optimistic", "won", 33))
    ),
    Metric(
        partial_openauc,
        label="partial OpenAUC, FPR ≤ 0.1",
        short="partial OpenAUC",
        params={"max_fpr": 0.1},
        better="higher",
        bounds=UNIT,
        reference="Wang et al., NeurIPS 2022",
        kernel=partial_kernel,
        variance=partial_variance,
        order=17,
        counts_errors_of="both",
    ),
)
