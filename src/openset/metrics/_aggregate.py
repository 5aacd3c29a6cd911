"""Accuracy and AUROC in one number, kept for comparison with published tables."""

from openset.metrics import _auroc
from openset.metrics._ranking_counts import Floats, RankingCounts, both_sides
from openset.scores import Scores


def acc_times_auroc(scores: Scores) -> float:
    r"""Closed-set accuracy times AUROC.

    Both parts may come from different samples, so it can stay the same while the
    open-set answers get worse: see :mod:`openset.metrics.consistency`.

    Examples
    --------
    >>> scores = Scores(labels=[0, 0, -1], predicted=[0, 1, 0], known=[3, 1, 2])
    >>> acc_times_auroc(scores)
    0.25
    """
    return float(times_kernel(both_sides("acc_times_auroc", scores)))


def acc_plus_auroc(scores: Scores) -> float:
    r"""Closed-set accuracy plus AUROC, in [0, 2].

    Examples
    --------
    >>> scores = Scores(labels=[0, 0, -1], predicted=[0, 1, 0], known=[3, 1, 2])
    >>> acc_plus_auroc(scores)
    1.0
    """
    return float(plus_kernel(both_sides("acc_plus_auroc", scores)))


def times_kernel(table: RankingCounts) -> Floats:
    """Compute it for every replicate."""
    return table.accuracy * _auroc.kernel(table)


def plus_kernel(table: RankingCounts) -> Floats:
    """Compute it for every replicate."""
    return table.accuracy + _auroc.kernel(table)
