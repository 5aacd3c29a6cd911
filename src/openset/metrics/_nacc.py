"""Normalized accuracy."""

from dataclasses import replace
from typing import Literal

import numpy as np

from openset import _check
from openset.metrics._class_counts import ClassCounts, Floats, class_counts, ratio
from openset.metrics._registry import UNIT, Metric, best, register
from openset.metrics._sweep import sweep
from openset.scores import Scores, need_both_sides

AUS = Literal["precision", "recall"]


def normalized_accuracy(
    scores: Scores,
    threshold: float | Literal["best"],
    *,
    balance: float = 0.5,
    aus: AUS = "precision",
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
        A number, or ``"best"``: the largest value over all thresholds.
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
    _check.one_of("normalized_accuracy", "aus", aus, ["precision", "recall"])
    _check.rate("normalized_accuracy", "balance", balance)
    if isinstance(threshold, str):
        _check.one_of("normalized_accuracy", "threshold", threshold, ["best"])
        need_both_sides("normalized_accuracy", scores)
        column = "normalized_accuracy" + "_recall" * (aus == "recall")
        threshold = sweep(scores, balance=balance).best(column).threshold
    counts = class_counts(scores, threshold, caller="normalized_accuracy")
    return float(kernel(counts, balance=balance, aus=aus))


def kernel(
    counts: ClassCounts, *, balance: float = 0.5, aus: AUS = "precision"
) -> Floats:
    """Compute it for every replicate."""
    n_classes = counts.support.shape[-1]
    missed = counts.n_known - counts.hits.sum(axis=-1)
    wrong = counts.false.sum(axis=-1) + missed
    on_known = 1 - wrong / (n_classes * np.asarray(counts.n))
    rejected = counts.rejected_unknown
    whole = rejected + counts.rejected_known if aus == "precision" else counts.n_unknown
    return balance * on_known + (1 - balance) * ratio(rejected, whole)


_PRECISION = Metric(
    normalized_accuracy,
    label="Normalized accuracy",
    short="normalized accuracy",
    kind="threshold",
    better="higher",
    bounds=UNIT,
    reference="Wang et al., NeurIPS 2022",
    kernel=kernel,
    order=28,
    counts_errors_of="both",
    moves_with_prevalence=True,
)
register(
    _PRECISION,
    best(_PRECISION),
    replace(
        _PRECISION,
        key="normalized_accuracy_recall",
        label="Normalized accuracy, recall",
        short="normalized acc., recall",
        params={"aus": "recall"},
        order=29,
    ),
)
