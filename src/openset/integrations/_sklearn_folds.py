"""Cross-validation folds, and a detector that returns precomputed scores."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.detectors import Batch, Detector, State
from openset.integrations.sklearn_outputs import CALLER


def rows_of(X: Any, rows: NDArray[np.intp]) -> Any:
    """Return samples of what :func:`sklearn.utils.indexable` returned."""
    if hasattr(X, "iloc"):  # pandas, where brackets select columns
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else [X[row] for row in rows]


def n_samples(X: Any) -> int:
    """Return the number of samples; sparse matrices have no length."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def splits(
    cv: Any, X: Any, labels: NDArray[Any], owner: NDArray[np.intp]
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Split the known samples into folds: rows to fit on, rows to score.

    `owner` holds the index of each label among the sorted classes.
    """
    if hasattr(cv, "split") and not isinstance(cv, str):
        yield from cv.split(X, labels)
        return
    n_folds = _check.integer(
        CALLER,
        "cv",
        cv if cv is None or np.isscalar(cv) else type(cv),  # a list may be long
        low=2,
        remedy="It may also be a splitter, with split(X, y)",
    )
    counts = np.bincount(owner)
    if counts.max() < 2:
        msg = _check.must(
            "two or more for at least one class",
            caller=f"{CALLER}.fit",
            name="samples",
            got=f"1 sample of each of {counts.size} classes",
            remedy="The threshold is chosen on samples held out of the fit",
        )
        raise ValueError(msg)
    order = np.argsort(owner, kind="stable")
    place = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
    folds = np.empty(owner.size, dtype=np.int64)
    # Every class is spread over the folds; a single sample of a class is in every fit.
    folds[order] = np.where(counts[owner[order]] > 1, place % n_folds, -1)
    for fold in range(min(n_folds, int(counts.max()))):
        yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)


@dataclass(frozen=True, kw_only=True)
class PrecomputedScores(Detector, listed=False):
    """A detector that returns precomputed scores, given as two features.

    The features are knownness and predicted class. Held-out scores come from one
    detector per fold, but a rejector is calibrated with a single detector.
    """

    name = "precomputed"
    score_needs = ("features",)
    score_cost = "1"
    paper = "-"

    def score_batch(self, state: State, batch: Batch) -> NDArray[np.float64]:
        return batch.features[:, 0]

    def predict_batch(self, state: State, batch: Batch) -> NDArray[np.int64]:
        return batch.features[:, 1].astype(np.int64)
