"""Error rates at the threshold that reaches a given true positive rate."""

from dataclasses import replace
from math import ceil
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.metrics._ranking_counts import Floats, RankingCounts, both_sides
from openset.metrics._registry import UNIT, Metric, register
from openset.scores import Scores

Positive = Literal["known", "unknown"]
Average = Literal["balanced", "pooled"]


def fpr_at_tpr(
    scores: Scores, tpr: float = 0.95, *, positive: Positive = "known"
) -> float:
    r"""Return the false positive rate where the true positive rate is at least `tpr`.

    .. math:: \mathrm{FPR}(\theta), \qquad
              \theta = \max \{\theta' : \mathrm{TPR}(\theta') \ge \mathrm{tpr}\}

    With ``positive="known"`` the threshold θ is the largest one that accepts at least
    the share `tpr` (95 %) of the known samples, and the value is the share of unknown
    samples accepted there. With ``positive="unknown"`` the roles are swapped: θ is the
    smallest one that rejects at least 95 % of the unknown samples, and the value is the
    share of known samples rejected. The two differ, and papers use either: state which
    one you report. No interpolation: at least ``ceil(tpr
    * n)`` positives are found.

    Examples
    --------
    >>> scores = Scores(
    ...     labels=[0, 0, 0, -1, -1], predicted=[0] * 5, known=[5, 3, 1, 4, 2]
    ... )
    >>> fpr_at_tpr(scores, 0.5), fpr_at_tpr(scores, 0.5, positive="unknown")
    (0.5, 0.3333333333333333)
    """
    _check.one_of("fpr_at_tpr", "positive", positive, ["known", "unknown"])
    _check.rate("fpr_at_tpr", "tpr", tpr, open_low=True)
    table = both_sides("fpr_at_tpr", scores)
    return float(fpr_kernel(table, tpr=tpr, positive=positive))


def error_at_tpr(
    scores: Scores,
    tpr: float = 0.95,
    *,
    positive: Positive = "known",
    average: Average = "balanced",
) -> float:
    r"""Return the detection error at the threshold of :func:`fpr_at_tpr`.

    ``average="balanced"`` is (1 - TPR)/2 + FPR/2, with the TPR actually reached;
    ``"pooled"`` is the share of all samples on the wrong side, which depends on the
    proportion of known and unknown samples. Table 5 of the OpenAUC paper is pooled with
    ``positive="unknown"`` (reported as ``error_at_tpr_unknown_pooled``): its values
    exceed what the other three can reach.

    Examples
    --------
    >>> scores = Scores(
    ...     labels=[0, 0, -1, -1], predicted=[0] * 4, known=[4, 2, 3, 1]
    ... )
    >>> error_at_tpr(scores, 0.5)
    0.25
    """
    _check.one_of("error_at_tpr", "positive", positive, ["known", "unknown"])
    _check.one_of("error_at_tpr", "average", average, ["balanced", "pooled"])
    _check.rate("error_at_tpr", "tpr", tpr, open_low=True)
    table = both_sides("error_at_tpr", scores)
    return float(error_kernel(table, tpr=tpr, positive=positive, average=average))


def fpr_kernel(
    table: RankingCounts, *, tpr: float = 0.95, positive: Positive = "known"
) -> Floats:
    """Compute it for every replicate."""
    _, false, _, n_negative = _counts(table, tpr, positive)
    return false / n_negative


def error_kernel(
    table: RankingCounts,
    *,
    tpr: float = 0.95,
    positive: Positive = "known",
    average: Average = "balanced",
) -> Floats:
    """Compute it for every replicate."""
    found, false, n_positive, n_negative = _counts(table, tpr, positive)
    if average == "balanced":
        return (1 - found / n_positive) / 2 + false / n_negative / 2
    return (n_positive - found + false) / (n_positive + n_negative)


def _counts(
    table: RankingCounts, tpr: float, positive: Positive
) -> tuple[Floats, Floats, int, int]:
    """Count true and false positives at the threshold."""
    n_known, n_unknown = table.n_known, table.n_unknown
    rate = _check.fraction(tpr)
    if positive == "known":
        at = first_reaching(table.known, ceil(rate * n_known))
        return pick(table.known, at), pick(table.unknown, at), n_known, n_unknown
    # Rejecting means known <= threshold. The smallest sufficient threshold is the score
    # of an unknown: the first below the last level that accepts at most the unknowns
    # that may be missed.
    at = last_within(table.unknown, n_unknown - ceil(rate * n_unknown))
    found, false = n_unknown - pick(table.unknown, at), n_known - pick(table.known, at)
    return found, false, n_unknown, n_known


def first_reaching(counts: NDArray[Any], need: Any) -> NDArray[np.intp]:
    """Index of the first level whose count is at least `need`."""
    if counts.ndim == 1:  # in the dtype of the counts, which avoids converting them all
        return np.asarray(np.searchsorted(counts, counts.dtype.type(need)))
    return (counts < np.asarray(need)[..., None]).sum(axis=-1)


def last_within(counts: NDArray[Any], most: Any) -> NDArray[np.intp]:
    """Index of the last level whose count is at most `most`."""
    if counts.ndim == 1:
        found = np.searchsorted(counts, counts.dtype.type(most), side="right")
        return np.asarray(found - 1)
    return (counts <= np.asarray(most)[..., None]).sum(axis=-1) - 1


def pick(counts: NDArray[Any], at: NDArray[np.intp]) -> Floats:
    """Read the count at one level per replicate."""
    taken = np.take_along_axis(counts, at[..., None], axis=-1)[..., 0]
    return np.asarray(taken, dtype=np.float64)


_FPR = Metric(
    fpr_at_tpr,
    label="FPR95, known positive",
    short="FPR95",
    better="lower",
    bounds=UNIT,
    kernel=fpr_kernel,
    order=8,
    aliases=("fpr95",),
    counts_errors_of="detection",
)
_ERROR = Metric(
    error_at_tpr,
    label="Detection error at 95 % TPR",
    short="error at 95 % TPR",
    better="lower",
    bounds=UNIT,
    kernel=error_kernel,
    order=21,
    counts_errors_of="detection",
)
register(
    _FPR,
    replace(
        _FPR,
        key="fpr_at_tpr_unknown",
        label="FPR95, unknown positive",
        short="FPR95, unknown positive",
        params={"positive": "unknown"},
        order=20,
        aliases=(),
    ),
    _ERROR,
    replace(
        _ERROR,
        key="error_at_tpr_unknown_pooled",
        label="Error at 95 % TPR, unknown positive, pooled",
        short="error, unknown, pooled",
        params={"positive": "unknown", "average": "pooled"},
        order=25,
        reference="Wang et al., NeurIPS 2022, Table 5",
        moves_with_prevalence=True,
    ),
)
