"""Closed-set accuracy."""

import numpy as np

from openset.scores import Scores, need_known


def accuracy(scores: Scores) -> float:
    r"""Share of known samples whose class is right, nobody rejected.

    .. math:: \mathrm{Acc} = \frac{1}{N_k} \sum_{i \in K} [\hat y_i = y_i]

    Examples
    --------
    >>> accuracy(Scores(labels=[0, 1, -1], predicted=[0, 0, 1], known=[3, 2, 1]))
    0.5
    """
    need_known("accuracy", scores)
    return float(np.count_nonzero(scores.is_correct) / scores.n_known)
