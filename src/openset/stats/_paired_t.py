"""Paired t-tests over folds or seeds, corrected for multiple testing."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import scipy  # its submodules are imported on first use
from numpy.typing import ArrayLike, NDArray

from openset import _check
from openset._types import UndefinedMetricError
from openset.results import Results

Correction = Literal["holm", "bonferroni", "none"]
CORRECTIONS = ("holm", "bonferroni", "none")


@dataclass(frozen=True)
class PairedTest:
    """Mean difference a - b over runs, with statistic and p-value."""

    a: str
    b: str
    difference: float
    statistic: float
    p_value: float
    p_corrected: float
    n: int


def paired_t(
    results: Results | Mapping[str, ArrayLike],
    correction: Correction = "holm",
    *,
    against: str | None = None,
    test_share: float | None = None,
) -> list[PairedTest]:
    r"""Test (two-sided) whether methods differ over the same folds or seeds.

    Parameters
    ----------
    results
        One metric of several detectors, or a mapping from method to its values, where
        index i is the same fold for all.
    correction
        Correction for the number of comparisons: ``"holm"``, ``"bonferroni"`` or
        ``"none"``.
    against
        Test only this method against every other one; by default all pairs are tested.
    test_share
        Ratio of test to training samples, for folds that *share training data*
        (cross-validation, repeated random splits): the variance is then multiplied by
        :math:`1 + n\,n_\text{test}/n_\text{train}`, the corrected resampled t-test of
        Nadeau and Bengio (2003). Without it folds are treated as independent, which
        makes p-values too small.

    Examples
    --------
    >>> tests = paired_t({"ours": [0.90, 0.91, 0.93], "theirs": [0.85, 0.87, 0.87]})
    >>> round(tests[0].difference, 4), round(tests[0].p_value, 4)
    (0.05, 0.0131)
    """
    _check.one_of("paired_t", "correction", correction, CORRECTIONS)
    if test_share is not None:
        _check.number("paired_t", "test_share", test_share, low=0, open_low=True)
    table = _table(results)
    if against is None:
        pairs = list(combinations(table, 2))
    else:
        _check.one_of("paired_t", "against", against, list(table))
        pairs = [(against, other) for other in table if other != against]
    raw = [_test(table[a], table[b], a, b, test_share) for a, b in pairs]
    corrected = adjust([p for _, _, p in raw], correction)
    return [
        PairedTest(a, b, difference, statistic, p, p_corrected, table[a].size)
        for (a, b), (difference, statistic, p), p_corrected in zip(
            pairs, raw, corrected, strict=True
        )
    ]


def adjust(p_values: ArrayLike, correction: Correction = "holm") -> list[float]:
    """Correct p-values for multiple testing.

    Examples
    --------
    >>> adjust([0.01, 0.04, 0.03]), adjust([0.01, 0.04, 0.03], "bonferroni")
    ([0.03, 0.06, 0.06], [0.03, 0.12, 0.09])
    """
    _check.one_of("adjust", "correction", correction, CORRECTIONS)
    p = np.asarray(p_values, dtype=float)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        rule = "a vector of numbers in [0, 1]"
        raise ValueError(_check.must(rule, caller="adjust", name="p_values", got=p))
    if correction == "none":
        return [float(value) for value in p]
    if correction == "bonferroni":
        return [float(value) for value in np.minimum(p * p.size, 1)]
    order = np.argsort(p, kind="stable")
    scaled = p[order] * (p.size - np.arange(p.size))
    out = np.empty_like(p)
    out[order] = np.minimum(np.maximum.accumulate(scaled), 1)
    return [float(value) for value in out]


def _table(results: Any) -> dict[str, NDArray[np.float64]]:
    if isinstance(results, Results):
        found = sorted(set(results.column("metric")))
        if len(found) > 1:
            msg = _check.must(
                "of one metric",
                caller="paired_t",
                name="results",
                got=", ".join(found),
                remedy="Use results.where(metric=...)",
            )
            raise ValueError(msg)
        table = results.paired("detector")
    else:
        rule = "Results, or a mapping from method to its values"
        remedy = "Give the values by method: {'ours': [...], 'theirs': [...]}"
        _check.instance(
            "paired_t", "results", results, Mapping, rule=rule, remedy=remedy
        )
        table = {str(name): _values(name, values) for name, values in results.items()}
    if len(table) < 2:
        msg = _check.must(
            "at least two methods", caller="paired_t", name="results", got=len(table)
        )
        raise ValueError(msg)
    n = _check.same_length("paired_t", {name: v.size for name, v in table.items()})
    if n < 2:
        msg = f"paired_t: undefined for fewer than two runs, got {n}"
        raise UndefinedMetricError(msg)
    return table


def _values(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=float)
    caller, what = "paired_t", f"values of {name!r}"
    _check.vector(caller, what, array)
    if not np.isfinite(array).all():
        got = array[~np.isfinite(array)][0]
        raise ValueError(_check.must("finite", caller=caller, name=what, got=got))
    return array


def _test(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    name_a: str,
    name_b: str,
    test_share: float | None,
) -> tuple[float, float, float]:
    spread = a - b
    n = spread.size
    mean = float(spread.mean())
    variance = float(spread.var(ddof=1)) * (1 / n + (test_share or 0.0))
    # If all differences are equal, only rounding errors remain: that is no variance.
    rounding = 4 * np.spacing(max(np.abs(a).max(), np.abs(b).max()))
    if np.ptp(spread) <= rounding:
        if abs(mean) <= rounding:
            return 0.0, 0.0, 1.0
        msg = (
            f"paired_t: undefined for {name_a} and {name_b}: they differ by the same "
            f"{mean:g} in all {n} runs. Are the runs really different?"
        )
        raise UndefinedMetricError(msg)
    statistic = mean / variance**0.5
    return mean, statistic, float(2 * scipy.stats.t.sf(abs(statistic), n - 1))
