"""Inner, Outer, Halfpoint and Overall: four views of one confusion matrix."""

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics._class_counts import (
    ClassCounts,
    Floats,
    class_counts,
    closed_recall,
    ratio,
)
from openset.metrics._registry import UNIT, Metric, best, register
from openset.scores import Scores, need_both_sides, need_known

Base = Literal["balanced_accuracy", "accuracy", "f1"]
Absent = Literal["skip", "zero", "torchmetrics"]
BASES = ("balanced_accuracy", "accuracy", "f1")


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
    _check.one_of("inner_score", "base", base, BASES)
    need_known("inner_score", scores)
    if base == "balanced_accuracy":  # only two counts are needed
        support, hits = closed_recall(scores)
        return float(_mean(base, hits, hits, support))
    counts = class_counts(scores, -np.inf, caller="inner_score", unknowns=False)
    return float(inner_kernel(counts, base=base))


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
    _check.one_of("outer_score", "base", base, BASES)
    counts = class_counts(scores, threshold, caller="outer_score")
    return float(outer_kernel(counts, base=base))


def halfpoint_score(
    scores: Scores,
    threshold: float,
    *,
    base: Base = "balanced_accuracy",
    absent: Absent = "skip",
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
        was computed this way. ``"torchmetrics"``: as in the macro average of
        torchmetrics since version 1.0, which counts it as 0 as soon as one known sample
        is rejected, and also counts known classes that are only predicted.

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
    _check.one_of("halfpoint_score", "base", base, BASES)
    _check.one_of("halfpoint_score", "absent", absent, get_args(Absent))
    counts = class_counts(scores, threshold, caller="halfpoint_score", unknowns=False)
    return float(halfpoint_kernel(counts, base=base, absent=absent))


def overall_score(
    scores: Scores, threshold: float, *, base: Base = "balanced_accuracy"
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
    _check.one_of("overall_score", "base", base, BASES)
    counts = class_counts(scores, threshold, caller="overall_score", unknowns=False)
    return float(overall_kernel(counts, base=base))


def imbalance_ratio(scores: Scores) -> float:
    r"""Return the number of known samples per unknown sample.

    If it is far from 1, accuracy and F-scores of known against unknown are misleading.

    Examples
    --------
    >>> imbalance_ratio(Scores(labels=[0, 1, -1], predicted=[0, 1, 1], known=[3, 2, 1]))
    2.0
    """
    need_both_sides("imbalance_ratio", scores)
    return scores.n_known / scores.n_unknown


def inner_kernel(counts: ClassCounts, *, base: Base = "balanced_accuracy") -> Floats:
    """Compute it for every replicate."""
    if base == "accuracy":
        return ratio(counts.closed_hits.sum(axis=-1), counts.n_known)
    return _mean(base, counts.closed_hits, counts.closed_false, counts.support)


def outer_kernel(counts: ClassCounts, *, base: Base = "balanced_accuracy") -> Floats:
    """Compute it for every replicate."""
    accepted, rejected = counts.accepted_known, counts.rejected_unknown
    if base == "accuracy":
        return ratio(accepted + rejected, counts.n)
    if base == "f1":
        return ratio(2 * accepted, accepted + counts.accepted_unknown + counts.n_known)
    recall = ratio(accepted, counts.n_known)
    return (recall + ratio(rejected, counts.n_unknown)) / 2


def halfpoint_kernel(
    counts: ClassCounts, *, base: Base = "balanced_accuracy", absent: Absent = "skip"
) -> Floats:
    """Compute it for every replicate."""
    if base == "accuracy":
        return ratio(counts.hits.sum(axis=-1), counts.n_known)
    if absent != "torchmetrics":
        mean = _mean(base, counts.hits, counts.false_known, counts.support)
        if absent == "skip":
            return mean
        occurs = _occurs(base, counts.hits, counts.false_known, counts.support)
        n = occurs.sum(axis=-1)
        return mean * n / (n + 1)
    hits = _append(counts.hits, 0)
    false = _append(counts.false_known, counts.rejected_known)
    support = _append(counts.support, 0)
    return _mean(base, hits, false, support, only_true=False)


def overall_kernel(counts: ClassCounts, *, base: Base = "balanced_accuracy") -> Floats:
    """Compute it for every replicate."""
    if base == "accuracy":
        right = counts.hits.sum(axis=-1) + counts.rejected_unknown
        return ratio(right, counts.n)
    hits = _append(counts.hits, counts.rejected_unknown)
    false = _append(counts.false, counts.rejected_known)
    return _mean(base, hits, false, _append(counts.support, counts.n_unknown))


def _append(per_class: Floats, unknown: Floats | int) -> Floats:
    column = np.broadcast_to(unknown, per_class.shape[:-1])[..., None]
    return np.concatenate([per_class, column], axis=-1)


def _mean(
    base: Base, hits: Floats, false: Floats, support: Floats, *, only_true: bool = True
) -> Floats:
    """Mean recall or F-score over the classes that occur.

    For recall a class occurs if it has samples (scikit-learn's balanced accuracy),
    unless `only_true` is off; for the F-score also if it is only predicted.
    """
    value = (
        ratio(2 * hits, hits + false + support)
        if base == "f1"
        else ratio(hits, support)
    )
    occurs = _occurs(base, hits, false, support, only_true=only_true)
    return ratio((value * occurs).sum(axis=-1), occurs.sum(axis=-1))


def _occurs(
    base: Base, hits: Floats, false: Floats, support: Floats, *, only_true: bool = True
) -> NDArray[np.bool_]:
    if base != "f1" and only_true:
        return support > 0
    return hits + false + support > 0


_IMBALANCE = "Komorniczak & Ksieniewicz, 2024"
_HALFPOINT = Metric(
    halfpoint_score,
    label="Halfpoint score",
    short="Halfpoint",
    kind="threshold",
    better="higher",
    bounds=UNIT,
    reference=_IMBALANCE,
    kernel=halfpoint_kernel,
    order=11,
    aliases=("halfpoint",),
    counts_errors_of="both",
)
_OVERALL = Metric(
    overall_score,
    label="Overall score",
    short="Overall",
    kind="threshold",
    better="higher",
    bounds=UNIT,
    reference=_IMBALANCE,
    kernel=overall_kernel,
    order=12,
    aliases=("overall",),
    counts_errors_of="both",
)
register(
    _HALFPOINT,
    # Unknown samples do not count in it: the best threshold accepts everything.
    best(_HALFPOINT, counts_errors_of="classification"),
    replace(
        _HALFPOINT,
        key="halfpoint_k_plus_1",
        label="Halfpoint score, mean over K + 1 classes",
        short="Halfpoint, K + 1",
        params={"absent": "zero"},
        order=24,
        aliases=("halfpoint_paper",),
    ),
    _OVERALL,
    best(_OVERALL),
    Metric(
        inner_score,
        label="Inner score",
        short="Inner",
        kind="closed",
        better="higher",
        bounds=UNIT,
        reference=_IMBALANCE,
        kernel=inner_kernel,
        order=13,
        aliases=("inner",),
        counts_errors_of="classification",
    ),
    Metric(
        outer_score,
        label="Outer score",
        short="Outer",
        kind="threshold",
        better="higher",
        bounds=UNIT,
        reference=_IMBALANCE,
        kernel=outer_kernel,
        order=14,
        aliases=("outer",),
        counts_errors_of="detection",
    ),
    Metric(
        imbalance_ratio,
        label="Known samples per unknown sample",
        short="known per unknown",
        kind="data",
        better="neither",
        reference=_IMBALANCE,
    ),
)
