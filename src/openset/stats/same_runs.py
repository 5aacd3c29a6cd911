"""Methods over the same runs: which runs are independent, and paired t-tests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
import scipy  # its submodules are imported on first use
from numpy.typing import ArrayLike, NDArray

from openset import _check
from openset.results import Result, Results

Correction = Literal["holm", "bonferroni", "none"]
CORRECTIONS = ("holm", "bonferroni", "none")

ALL = "all protocols"
"""Protocol of a test that pools the runs of all protocols."""

Run = tuple[str, int, int, int]
"""A measurement: protocol, repeat (draw of the classes), test split, seed."""

Values = Mapping[str, Mapping[Run, float]]
"""Method -> run -> value."""


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """Two methods over the same runs: mean difference a - b, and its test.

    `n` counts the independent runs, and `over` says what they are; `low` and `high` are
    the ends of the confidence interval of the difference. Where no test is possible
    (one run, or the same difference in all) these, `statistic` and the p-values are
    None.
    """

    protocol: str = ""
    metric: str = ""
    a: str
    b: str
    mean_a: float
    mean_b: float
    difference: float
    n: int
    over: str
    statistic: float | None = None
    p_value: float | None = None
    p_corrected: float | None = None
    low: float | None = None
    high: float | None = None


def independent_runs(values: Values) -> tuple[dict[str, dict[Any, float]], str]:
    """Average runs that are not independent, and say what the means are of.

    Test splits of one network share all but their test samples: they are one run. Seeds
    of one draw of the classes share the classes: they are one run, if there are several
    draws. Of a single draw seeds are all there is; other classes may differ more.

    Every table, test and check of this package that counts runs uses this function.

    Parameters
    ----------
    values
        Method -> run -> value; a run is (protocol, repeat, split, seed), and each
        repeat of a protocol is a draw.

    Examples
    --------
    >>> runs = {("p", draw, 0, seed): draw + seed for draw in (0, 1) for seed in (0, 1)}
    >>> independent_runs({"msp": runs})
    ({'msp': {('p', 0): 0.5, ('p', 1): 1.5}}, '2 repeats, means of 4 runs')
    >>> independent_runs({"msp": {("p", 0, s, 7): float(s) for s in range(5)}})
    ({'msp': {('p', 0, 7): 2.0}}, '1 network, means of 5 test splits')
    """
    runs = {run for of_method in values.values() for run in of_method}
    n_draws = len({run[:2] for run in runs})
    found: dict[str, dict[Any, float]] = {}
    for name, of_method in values.items():
        parts: dict[Any, list[float]] = {}
        for run in sorted(of_method):
            unit = run[:2] if n_draws > 1 else (*run[:2], run[3])
            parts.setdefault(unit, []).append(of_method[run])
        found[name] = {unit: float(np.mean(part)) for unit, part in parts.items()}
    n = len({unit for of_method in found.values() for unit in of_method})
    what, of = "repeat", "runs"
    if n_draws == 1:
        what, of = ("seed", "test splits") if n > 1 else ("network", "test splits")
    over = f"{n} {what}{'s' * (n != 1)}"
    over += " of one draw of the classes" if n_draws == 1 and n > 1 else ""
    over += f", means of {len(runs)} {of}" if len(runs) > n else ""
    return found, over


def paired_t(
    results: Results | Mapping[str, ArrayLike],
    metric: str | None = None,
    *,
    against: str | None = None,
    correction: Correction = "holm",
    pool: bool = False,
    level: float = 0.95,
) -> list[PairedTest]:
    r"""Test (two-sided, paired) whether methods differ over the same runs.

    .. math:: t = \bar d \Big/ \sqrt{s_d^2 / n}, \qquad d_i = a_i - b_i

    over n independent runs (:func:`independent_runs`) with n - 1 degrees of freedom. A
    method is named by those of model, training method and detector that vary. Folds
    that share training data are not independent: p-values are then too small.

    Parameters
    ----------
    results
        The results, e.g. of a run folder; or a mapping from method to its values, where
        index i is the same independent run for all.
    metric
        The metric to compare; may be left out if the results have one only.
    against
        Test only this method against every other one; by default all pairs are tested.
    correction
        Correction for the number of all tests: ``"holm"``, ``"bonferroni"`` (as in the
        PostMax paper) or ``"none"``.
    pool
        One test over the runs of all protocols, instead of one per protocol. Protocols
        that share known test samples are not independent; p-values are then too small.
    level
        Confidence level of the intervals of the differences.

    References
    ----------
    PostMax paper (ECCV 2024), section 4.2: paired, two-tailed t-tests over five test
    splits, with Bonferroni's correction.

    Examples
    --------
    >>> (test,) = paired_t({"ours": [0.90, 0.91, 0.93], "theirs": [0.85, 0.87, 0.87]})
    >>> round(test.difference, 4), round(test.p_value, 4)
    (0.05, 0.0131)
    """
    caller = "paired_t"
    _check.open_unit(caller, "level", level)
    rows = list(results) if isinstance(results, Results) else _rows(results)
    have = sorted({row.metric for row in rows})
    if metric is None and len(have) == 1:
        metric = have[0]
    metric = _check.one_of(caller, "metric", metric, have)
    tables = values_by(rows, [metric], "metric" if pool else "protocol")
    names = list(dict.fromkeys(name for table in tables.values() for name in table))
    if len(names) < 2:
        _check.fail(caller, "results", "of at least two methods", ", ".join(names))
    if against is not None:
        _check.one_of(caller, "against", against, names)
    found = []
    for protocol, table in tables.items():
        present = [name for name in names if name in table]
        pairs = [*combinations(present, 2)]
        if against is not None:
            pairs = [(against, b) for b in present if against in table and b != against]
        tests = pair_tests(table, pairs, level=level)
        where = ALL if pool else protocol
        found += [replace(one, protocol=where, metric=metric) for one in tests]
    return corrected(found, correction)


def pair_tests(
    table: Values,
    pairs: Iterable[tuple[str, str]],
    *,
    level: float = 0.95,
) -> list[PairedTest]:
    """Test pairs of methods over the same runs; p-values are not corrected."""
    means, over = independent_runs(table)
    found = []
    for a, b in pairs:
        differ = table[a].keys() ^ table[b].keys()
        if differ:
            run = min(differ)
            place = "protocol {!r}, repeat {}, split {}, seed {}".format(*run)
            got = f"no {place} of {a if run in table[b] else b!r}"
            remedy = "Finish the study first: openset bench STUDY.yaml --out DIR"
            what = f"results of {a!r} and {b!r}"
            _check.fail("paired_t", what, "of the same runs", got, remedy)
        of_a, of_b = (np.array(list(means[name].values())) for name in (a, b))
        spread, n = of_a - of_b, of_a.size
        difference = float(spread.mean())
        # Equal differences differ by rounding errors only: that is no variance.
        rounding = 4 * np.spacing(max(np.abs(of_a).max(), np.abs(of_b).max()))
        is_constant = bool(np.ptp(spread) <= rounding)
        facts: dict[str, Any] = {}
        if n > 1 and not (is_constant and abs(difference) > rounding):
            law, error, statistic = scipy.stats.t(n - 1), 0.0, 0.0
            if not is_constant:
                error = float((spread.var(ddof=1) * (1 / n)) ** 0.5)
                statistic = difference / error
            half = float(law.ppf((1 + level) / 2) * error)
            facts = {"low": difference - half, "high": difference + half}
            p_value = float(2 * law.sf(abs(statistic)))
            facts |= {"statistic": statistic, "p_value": p_value}
        facts |= {"mean_a": float(of_a.mean()), "mean_b": float(of_b.mean())}
        test = PairedTest(a=a, b=b, difference=difference, n=n, over=over, **facts)
        found.append(test)
    return found


def corrected(
    found: Sequence[PairedTest], correction: Correction = "holm"
) -> list[PairedTest]:
    """Correct p-values for the number of tests; where none is possible, none counts."""
    raw = [one.p_value for one in found if one.p_value is not None]
    p_values = iter(adjust(raw, correction))
    return [
        one if one.p_value is None else replace(one, p_corrected=next(p_values))
        for one in found
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
    order = np.argsort(p, kind="stable")
    times = {"none": 1, "bonferroni": p.size, "holm": p.size - np.arange(p.size)}
    out = np.empty_like(p)
    out[order] = np.minimum(np.maximum.accumulate(p[order] * times[correction]), 1)
    return [float(value) for value in out]


def names_of(rows: Iterable[Result]) -> dict[tuple[str, ...], str]:
    """Name each method by those of model, training method and detector that vary."""
    found = list(dict.fromkeys(map(who, rows)))
    vary = [i for i in range(3) if len({one[i] for one in found}) > 1]
    vary = vary or [i for i in range(3) if found and found[0][i]][-1:]
    return {one: " · ".join(one[i] for i in vary if one[i]) for one in found}


def who(row: Result) -> tuple[str, ...]:
    """Return what was measured: model, training method and detector."""
    return row.model, row.method, row.detector


def values_by(
    rows: Iterable[Result], metrics: Sequence[str], column: str
) -> dict[str, dict[str, dict[Run, float]]]:
    """Return column -> method -> run -> value; a column is a protocol or a metric."""
    kept = [row for row in rows if row.metric in metrics]
    names = names_of(kept)
    found: dict[str, dict[str, dict[Run, float]]] = {}
    for row in kept:
        of_column = found.setdefault(getattr(row, column), {})
        runs = of_column.setdefault(names[who(row)], {})
        run = (row.protocol, row.repeat, row.split, row.seed)
        if run in runs:
            msg = f"stats: runs must be unique, got {row} twice"
            raise ValueError(msg)
        runs[run] = row.value
    return found


def table_of(caller: str, given: object) -> dict[str, NDArray[np.float64]]:
    """Read a mapping from method to its values; index i is the same run for all."""
    rule = "Results, or a mapping from method to its values"
    remedy = "Give the values by method: {'ours': [...], 'theirs': [...]}"
    _check.instance(caller, "results", given, Mapping, rule=rule, remedy=remedy)
    methods: Mapping[str, ArrayLike] = given  # type: ignore[assignment]
    values = np.array([*methods.values()], float)  # NumPy refuses other lengths
    if values.ndim != 2 or not np.isfinite(values).all():
        _check.fail(caller, "values", "a finite number for each run", values.tolist())
    return dict(zip(map(str, methods), values, strict=True))


def _rows(given: object) -> list[Result]:
    return [
        Result(detector=name, repeat=i, metric="", value=value)
        for name, of in table_of("paired_t", given).items()
        for i, value in enumerate(of.tolist())
    ]
