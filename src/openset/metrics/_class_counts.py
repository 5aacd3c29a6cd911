"""Counts per class at a threshold, from which thresholded metrics are computed.

The counts may carry leading axes (bootstrap replicates), as in `_ranking_counts`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.scores import Scores, need_both_sides, need_known

Floats: TypeAlias = NDArray[np.float64]
Count: TypeAlias = Callable[[NDArray[np.bool_], NDArray[np.intp]], Floats]


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Counts per known class, shape (..., C), and of the unknowns, shape (...)."""

    support: Floats  # known samples of the class
    closed_hits: Floats  # of these, classified correctly, without rejection
    closed_false: Floats  # known samples of other classes, predicted as this one
    hits: Floats  # accepted and classified correctly
    false_known: Floats  # accepted known samples of others, predicted as this one
    false_unknown: Floats  # accepted unknown samples, predicted as this one
    n_unknown: Floats

    @property
    def n_known(self) -> Floats:
        """Number of known samples."""
        return self.support.sum(axis=-1)

    @property
    def n(self) -> Floats:
        """Number of samples."""
        return self.n_known + self.n_unknown

    @property
    def accepted_known(self) -> Floats:
        """Known samples accepted, whatever the predicted class."""
        return (self.hits + self.false_known).sum(axis=-1)

    @property
    def rejected_known(self) -> Floats:
        """Known samples rejected."""
        return self.n_known - self.accepted_known

    @property
    def accepted_unknown(self) -> Floats:
        """Unknown samples accepted."""
        return self.false_unknown.sum(axis=-1)

    @property
    def rejected_unknown(self) -> Floats:
        """Unknown samples rejected."""
        return self.n_unknown - self.accepted_unknown

    @property
    def false(self) -> Floats:
        """Accepted samples, known or unknown, wrongly predicted as the class."""
        return self.false_known + self.false_unknown


def class_counts(
    scores: Scores,
    threshold: float,
    *,
    caller: str,
    unknowns: bool = True,
    count: Count | None = None,
) -> ClassCounts:
    """Count samples per class; `count` may weight samples (bootstrap)."""
    threshold = _check.threshold(caller, threshold)
    if unknowns:
        need_both_sides(caller, scores)
    else:
        need_known(caller, scores)
    label, predicted = positions(scores)
    accepted = scores.known >= threshold
    is_known, is_correct = ~scores.is_unknown, scores.is_correct
    count = count or counter(scores.classes.size)
    hits = count(is_correct & accepted, label)
    closed_hits = count(is_correct, label)
    false_unknown = count(scores.is_unknown & accepted, predicted)
    everyone = np.zeros(len(scores), dtype=np.intp)
    return ClassCounts(
        support=count(is_known, label),
        closed_hits=closed_hits,
        closed_false=count(is_known, predicted) - closed_hits,
        hits=hits,
        false_known=count(is_known & accepted, predicted) - hits,
        false_unknown=false_unknown,
        n_unknown=count(scores.is_unknown, everyone)[..., 0],
    )


def closed_recall(scores: Scores) -> tuple[Floats, Floats]:
    """Count known samples per class, and those of them classified correctly."""
    classes = scores.classes
    labels = scores.labels
    if classes[-1] != classes.size - 1:
        labels = positions(scores)[0]
    support, hits = (
        np.bincount(labels[np.flatnonzero(chosen)], minlength=classes.size)
        for chosen in (~scores.is_unknown, scores.is_correct)
    )
    return support.astype(np.float64), hits.astype(np.float64)


def positions(scores: Scores) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return labels and predictions as indices into `scores.classes` (unknown: C)."""
    classes = scores.classes
    if classes.size and classes[-1] == classes.size - 1:  # 0..C-1 already
        label = np.where(scores.is_unknown, classes.size, scores.labels)
        return label, scores.predicted.astype(np.intp, copy=False)
    label = np.searchsorted(classes, scores.labels)
    label[scores.is_unknown] = classes.size
    return label, np.searchsorted(classes, scores.predicted)


def counter(n_classes: int) -> Count:
    """Count samples by class."""

    def count(chosen: NDArray[np.bool_], place: NDArray[np.intp]) -> Floats:
        counts = np.bincount(place[chosen], minlength=n_classes)
        return counts.astype(np.float64)

    return count


def ratio(part: Any, whole: Any) -> Floats:
    """Divide; 0/0 is 0."""
    part, whole = np.asarray(part, dtype=float), np.asarray(whole, dtype=float)
    return np.divide(part, whole, out=np.zeros_like(part + whole), where=whole > 0)
