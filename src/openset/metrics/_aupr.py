"""Area under the precision-recall curve."""

from dataclasses import replace
from typing import Literal

import numpy as np

from openset import _check
from openset.metrics._ranking_counts import (
    Floats,
    RankingCounts,
    blocks,
    both_sides,
    dot,
)
from openset.metrics._registry import UNIT, Metric, register
from openset.scores import Scores

Positive = Literal["known", "unknown"]
Rule = Literal["step", "trapezoid"]


def aupr(scores: Scores, *, positive: Positive = "known", rule: Rule = "step") -> float:
    r"""Average precision of finding the positive samples (known ones by default).

    .. math:: \mathrm{AP} = \sum_n (R_n - R_{n-1}) P_n

    with precision P and recall R at each distinct score, most positive first. It
    depends on the share of positives in the data. ``rule="trapezoid"`` joins the points
    by straight lines, as OpenOOD and pytorch-ood do; that is optimistic, especially
    with ties.

    Examples
    --------
    >>> scores = Scores(labels=[0, 0, -1], predicted=[0, 0, 0], known=[3, 1, 2])
    >>> round(aupr(scores), 4), aupr(scores, positive="unknown")
    (0.8333, 0.5)
    """
    _check.one_of("aupr", "positive", positive, ["known", "unknown"])
    _check.one_of("aupr", "rule", rule, ["step", "trapezoid"])
    table = both_sides("aupr", scores)
    return float(kernel(table, positive=positive, rule=rule))


def kernel(
    table: RankingCounts, *, positive: Positive = "known", rule: Rule = "step"
) -> Floats:
    """Compute it for every replicate."""
    if rule == "step" and positive == "known":
        return table.sums.precision_known / table.n_known
    if rule == "step":
        return table.sums.precision_unknown / table.n_unknown
    if positive == "unknown":
        table = _swapped(table)
    area = np.zeros(table.known.shape[:-1])
    before = np.ones((*area.shape, 1))  # precision 1 at recall 0, by convention
    for block in blocks(table):
        accepted = block.known + block.unknown
        # (a replicate may have no samples at its first levels: still at recall 0)
        precision = np.where(accepted > 0, block.known / np.maximum(accepted, 1), 1)
        previous = np.concatenate([before, precision[..., :-1]], axis=-1)
        area += dot(block.d_known, precision + previous) / 2
        before = precision[..., -1:]
    return area / table.n_known


def _swapped(table: RankingCounts) -> RankingCounts:
    """Swap the sides: unknowns are the positives, from the lowest score up."""
    reverse = slice(None, None, -1)
    known = table.n_known - table.known[..., reverse]
    unknown = table.n_unknown - table.unknown[..., reverse]
    return RankingCounts(
        values=-table.values[reverse], known=unknown, correct=unknown, unknown=known
    )


_AUPR = Metric(
    aupr,
    label="AUPR, known positive",
    short="AUPR",
    better="higher",
    bounds=UNIT,
    kernel=kernel,
    order=9,
    counts_errors_of="detection",
    moves_with_prevalence=True,
)
register(
    _AUPR,
    replace(
        _AUPR,
        key="aupr_unknown",
        label="AUPR, unknown positive",
        short="AUPR, unknown positive",
        params={"positive": "unknown"},
        order=19,
    ),
)
