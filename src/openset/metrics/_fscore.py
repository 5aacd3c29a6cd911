"""Open-set F-score over the known classes."""

from dataclasses import replace
from typing import Literal

import numpy as np

from openset import _check
from openset.metrics._class_counts import ClassCounts, Floats, class_counts, ratio
from openset.metrics._registry import UNIT, Metric, best, register
from openset.metrics._sweep import sweep
from openset.scores import Scores, need_both_sides

Average = Literal["macro", "macro_f", "micro"]
_COLUMNS = {
    "macro": "f_score",
    "macro_f": "f_score_macro_f",
    "micro": "f_score_micro",
}


def f_score(
    scores: Scores,
    threshold: float | Literal["best"],
    *,
    average: Average = "macro",
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
        A number, or ``"best"``: the largest value over all thresholds (an oracle on
        the data it is computed on).
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
    _check.one_of("f_score", "average", average, list(_COLUMNS))
    if isinstance(threshold, str):
        _check.one_of("f_score", "threshold", threshold, ["best"])
        need_both_sides("f_score", scores)
        threshold = sweep(scores).best(_COLUMNS[average]).threshold
    return float(
        kernel(class_counts(scores, threshold, caller="f_score"), average=average)
    )


def kernel(counts: ClassCounts, *, average: Average = "macro") -> Floats:
    """Compute it for every replicate."""
    predicted = counts.hits + counts.false
    if average == "macro_f":
        return ratio(2 * counts.hits, predicted + counts.support).mean(axis=-1)
    if average == "micro":
        hits = counts.hits.sum(axis=-1)
        return ratio(2 * hits, predicted.sum(axis=-1) + counts.n_known)
    precision = ratio(counts.hits, predicted).mean(axis=-1)
    recall = ratio(counts.hits, counts.support).mean(axis=-1)
    return np.asarray(ratio(2 * precision * recall, precision + recall))


_MACRO = Metric(
    f_score,
    label="Open-set F, macro",
    short="F",
    kind="threshold",
    better="higher",
    bounds=UNIT,
    reference="Wang et al., NeurIPS 2022",
    kernel=kernel,
    order=10,
    aliases=("f", "f1", "f1_score", "f_measure", "fscore", "macro_f1"),
    counts_errors_of="both",
    moves_with_prevalence=True,
)
_MICRO = replace(
    _MACRO,
    key="f_score_micro",
    label="Open-set F, micro",
    short="F, micro",
    params={"average": "micro"},
    order=22,
    aliases=("micro_f1",),
)
register(
    _MACRO,
    best(_MACRO),
    _MICRO,
    best(_MICRO),
    replace(
        _MICRO,
        key="f_score_macro_f",
        label="Open-set F, mean of the classes",
        short="F, mean of classes",
        params={"average": "macro_f"},
        order=23,
        aliases=(),
    ),
)
