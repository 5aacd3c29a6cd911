"""Area under the ROC curve, known against unknown."""

from math import inf

from openset.metrics._ranking_counts import Floats, RankingCounts, both_sides
from openset.metrics._registry import UNIT, Metric, register
from openset.metrics._variance import pair_variance
from openset.scores import Scores


def auroc(scores: Scores) -> float:
    r"""Share of (known, unknown) pairs in which the known sample scores higher.

    .. math:: \frac{1}{N_k N_u} \sum_{i \in K} \sum_{j \in U}
              \bigl([s_i > s_j] + \tfrac12 [s_i = s_j]\bigr)

    Classes are ignored: a misclassified known sample with a high score counts in full.
    Only the ranks of scores matter, so scores may have any range.

    Examples
    --------
    >>> auroc(Scores(labels=[0, 0, -1], predicted=[0, 1, 0], known=[0.9, 0.2, 0.2]))
    0.75
    """
    return float(kernel(both_sides("auroc", scores)))


def kernel(table: RankingCounts) -> Floats:
    """Compute it for every replicate."""
    pairs = table.n_known * table.n_unknown
    return (table.sums.known.won + table.sums.known.tied / 2) / pairs


def variance(table: RankingCounts) -> tuple[float, float]:
    """Return its sampling variance; the normal distribution fits it."""
    return pair_variance(table.sums.known, table.n_known, table.n_unknown), inf


register(
    Metric(
        auroc,
        label="AUROC",
        better="higher",
        bounds=UNIT,
        kernel=kernel,
        variance=variance,
        order=2,
        aliases=("auc", "roc_auc"),
        counts_errors_of="detection",
    )
)
