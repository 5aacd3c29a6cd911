"""Youden's index."""

from dataclasses import replace
from typing import Literal

import numpy as np

from openset import _check
from openset.metrics._class_counts import ClassCounts, Floats, class_counts, ratio
from openset.metrics._registry import Metric, best, register
from openset.metrics._sweep import sweep
from openset.scores import Scores, need_both_sides

Kind = Literal["classes", "binary"]


def youden(
    scores: Scores,
    threshold: float | Literal["best"],
    *,
    kind: Kind = "classes",
) -> float:
    r"""Youden's index: true positive rate plus true negative rate, minus one.

    .. math:: J = \frac1C \sum_c \Bigl(\frac{TP_c}{TP_c + FN_c}
              + \frac{TN_c}{TN_c + FP_c}\Bigr) - 1

    Parameters
    ----------
    scores
        Labelled scores of known and unknown samples.
    threshold
        A number, or ``"best"``: the largest value over all thresholds.
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
    _check.one_of("youden", "kind", kind, ["classes", "binary"])
    if isinstance(threshold, str):
        _check.one_of("youden", "threshold", threshold, ["best"])
        need_both_sides("youden", scores)
        name = "youden" if kind == "classes" else "youden_binary"
        threshold = sweep(scores).best(name).threshold
    return float(kernel(class_counts(scores, threshold, caller="youden"), kind=kind))


def kernel(counts: ClassCounts, *, kind: Kind = "classes") -> Floats:
    """Compute it for every replicate."""
    if kind == "binary":
        tpr = ratio(counts.accepted_known, counts.n_known)
        return tpr - ratio(counts.accepted_unknown, counts.n_unknown)
    recall = ratio(counts.hits, counts.support).mean(axis=-1)
    negatives = np.asarray(counts.n)[..., None] - counts.support
    specificity = ratio(negatives - counts.false, negatives).mean(axis=-1)
    return recall + specificity - 1


_CLASSES = Metric(
    youden,
    label="Youden's index",
    short="Youden",
    kind="threshold",
    better="higher",
    bounds=(-1.0, 1.0),
    reference="Wang et al., NeurIPS 2022",
    kernel=kernel,
    order=26,
    counts_errors_of="both",
    moves_with_prevalence=True,
)
register(
    _CLASSES,
    best(_CLASSES),
    replace(
        _CLASSES,
        key="youden_binary",
        label="Youden, known/unknown",
        short="Youden, known/unknown",
        params={"kind": "binary"},
        order=27,
        counts_errors_of="detection",
        moves_with_prevalence=False,
    ),
)
