"""Ranks of many methods over many problems: tests of Friedman and Nemenyi."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, Literal

import numpy as np
import scipy  # its submodules are imported on first use
from numpy.typing import ArrayLike, NDArray

from openset import _check
from openset._types import UndefinedMetricError
from openset.stats.same_runs import table_of


@dataclass(frozen=True)
class Ranks:
    """Mean ranks (1 is best), Friedman's p-value and the critical difference.

    `p_value` is that of Friedman's test of the hypothesis that all methods are equal.
    Two methods differ significantly if their mean ranks are at least
    `critical_difference` apart (Nemenyi); `alike` lists the largest sets of methods
    without significant differences.
    """

    mean: Mapping[str, float]
    statistic: float
    p_value: float
    critical_difference: float
    alike: tuple[tuple[str, ...], ...]
    n: int
    level: float


def ranks(
    table: Mapping[str, ArrayLike],
    *,
    better: Literal["higher", "lower"] = "higher",
    level: float = 0.95,
) -> Ranks:
    r"""Rank three methods or more over the same problems.

    With mean ranks :math:`R_j` of k methods over N problems, ties sharing their ranks,

    .. math:: \chi^2_F = \frac{12 N}{k (k + 1)} \sum_j \Bigl(R_j - \frac{k + 1}{2}
              \Bigr)^2 \Big/ \Bigl(1 - \frac{\sum (t^3 - t)}{N k (k^2 - 1)}\Bigr),
              \qquad
              CD = \frac{q_{\text{level},k,\infty}}{\sqrt 2}
              \sqrt{\frac{k (k + 1)}{6 N}}

    where t runs over the sizes of ties and q is the quantile of the studentized range.
    Problems are assumed independent: use the mean over the repeats of each data set as
    one problem, not the repeats themselves.

    Parameters
    ----------
    table
        Values of each method, where index i is the same problem for all.
    better
        Whether higher or lower values are better.
    level
        Significance level of the critical difference.

    References
    ----------
    Demšar, "Statistical comparisons of classifiers over multiple data sets", JMLR 2006.

    Examples
    --------
    >>> found = ranks({"a": [0.9, 0.8, 0.7], "b": [0.8, 0.7, 0.6], "c": [0, 0, 0]})
    >>> found.mean
    {'a': 1.0, 'b': 2.0, 'c': 3.0}
    >>> round(found.statistic, 3), round(found.critical_difference, 3), found.alike
    (6.0, 1.914, (('a', 'b'), ('b', 'c')))
    """
    _check.one_of("ranks", "better", better, ["higher", "lower"])
    _check.open_unit("ranks", "level", level)
    columns = table_of("ranks", table)
    names, values = list(columns), np.stack(list(columns.values()), axis=1)
    n, k = values.shape
    if n < 2:
        msg = f"ranks: undefined for fewer than two problems, got {n}"
        raise UndefinedMetricError(msg)
    placed = scipy.stats.rankdata(-values if better == "higher" else values, axis=1)
    mean = placed.mean(axis=0)
    statistic, p_value = 0.0, 1.0
    if np.ptp(placed):  # else everything ties: no evidence of a difference
        test = scipy.stats.friedmanchisquare(*placed.T)
        statistic, p_value = float(test.statistic), float(test.pvalue)
    quantile = float(scipy.stats.studentized_range.ppf(level, k, inf))
    distance = quantile / sqrt(2) * sqrt(k * (k + 1) / (6 * n))
    order = np.argsort(mean, kind="stable")
    return Ranks(
        mean={names[i]: float(mean[i]) for i in order},
        statistic=statistic,
        p_value=p_value,
        critical_difference=distance,
        alike=_alike([names[i] for i in order], mean[order], distance),
        n=n,
        level=level,
    )


def _alike(
    names: list[str], mean: NDArray[Any], distance: float
) -> tuple[tuple[str, ...], ...]:
    """Return the maximal sets of methods closer than the critical difference."""
    spans: list[tuple[int, int]] = []
    for first in range(len(names)):
        last = int(np.flatnonzero(mean - mean[first] < distance)[-1])
        if last > first and not (spans and spans[-1][1] >= last):
            spans.append((first, last))
    return tuple(tuple(names[first : last + 1]) for first, last in spans)
