"""Closed-set accuracy."""

import numpy as np

from openset.metrics._class_counts import ClassCounts, Floats
from openset.metrics._registry import UNIT, Metric, register
from openset.scores import Scores, need_known


def accuracy(scores: Scores) -> float:
    r"""Share of known samples that are classified correctly, without rejection.

    .. math:: \mathrm{Acc} = \frac{1}{N_k} \sum_{i \in K} [\hat y_i = y_i]

    Examples
    --------
    >>> accuracy(Scores(labels=[0, 1, -1], predicted=[0, 0, 1], known=[3, 2, 1]))
    0.5
    """
    need_known("accuracy", scores)
    return float(np.count_nonzero(scores.is_correct) / scores.n_known)


def kernel(counts: ClassCounts) -> Floats:
    """Compute it for every replicate."""
    return counts.closed_hits.sum(axis=-1) / counts.n_known


register(
    Metric(
        accuracy,
        label="Accuracy",
        short="accuracy",
        kind="closed",
        better="higher",
        bounds=UNIT,
        kernel=kernel,
        share_of="known",
        order=3,
        aliases=("acc",),
        counts_errors_of="classification",
    )
)
