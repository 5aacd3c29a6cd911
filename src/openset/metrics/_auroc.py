"""Area under the ROC curve, known against unknown."""

from openset.metrics._ranking_counts import (
    Floats,
    Moments,
    RankingCounts,
    both_sides,
    moments,
)
from openset.scores import Scores


def auroc(scores: Scores) -> float:
    r"""Share of (known, unknown) pairs in which the known sample scores higher.

    .. math:: \frac{1}{N_k N_u} \sum_{i \in K} \sum_{j \in U}
              \bigl([s_i > s_j] + \tfrac12 [s_i = s_j]\bigr)

    Classes play no part: a sample named wrongly but scored high counts in full. Scores
    enter by rank only; they are never squashed, so any range will do.

    Examples
    --------
    >>> auroc(Scores(labels=[0, 0, -1], predicted=[0, 1, 0], known=[0.9, 0.2, 0.2]))
    0.75
    """
    table = both_sides("auroc", scores)
    return float(from_moments(table, moments(table)))


def from_moments(table: RankingCounts, sums: Moments) -> Floats:
    """Compute it from the pair counts."""
    pairs = table.n_known * table.n_unknown
    return (sums.known.won + sums.known.tied / 2) / pairs


def kernel(table: RankingCounts) -> Floats:
    """Compute it for every replicate."""
    return from_moments(table, moments(table))
