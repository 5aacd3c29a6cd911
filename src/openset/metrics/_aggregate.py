"""Accuracy and AUROC in one number, to compare with published tables."""

from openset.metrics import _auroc
from openset.metrics._ranking_counts import Floats, RankingCounts, both_sides
from openset.metrics._registry import UNIT, Metric, register
from openset.scores import Scores


def acc_times_auroc(scores: Scores) -> float:
    r"""Closed-set accuracy times AUROC.

    It does not tell whether the correctly classified samples are those with high
    scores, so it can stay the same while open-set decisions get worse: see
    :mod:`openset.metrics.consistency`.

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


_OPENAUC = "Wang et al., NeurIPS 2022"
# They combine two numbers that may depend on different samples: they do not count both
# kinds of error per sample.
register(
    Metric(
        acc_times_auroc,
        label="Accuracy · AUROC",
        short="accuracy · AUROC",
        better="higher",
        bounds=UNIT,
        reference=_OPENAUC,
        kernel=times_kernel,
        order=30,
    ),
    Metric(
        acc_plus_auroc,
        label="Accuracy + AUROC",
        short="accuracy + AUROC",
        better="higher",
        bounds=(0.0, 2.0),
        reference=_OPENAUC,
        kernel=plus_kernel,
        order=31,
    ),
)
