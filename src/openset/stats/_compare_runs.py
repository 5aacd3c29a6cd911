"""Methods compared over the runs of a study: paired t-tests."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from openset import _check
from openset._types import UndefinedMetricError
from openset.results import Results
from openset.stats._leaderboard import names_of, values_of
from openset.stats._paired_t import CORRECTIONS, Correction, adjust, paired_t

ALL = "all protocols"
"""Protocol of a test that pools the runs of all protocols."""


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """Two methods over the same runs: means, mean difference a - b, and its test.

    `statistic` and the p-values are None where no test is possible: a single run, or
    the same difference in every run.
    """

    protocol: str
    metric: str
    a: str
    b: str
    mean_a: float
    mean_b: float
    difference: float
    n: int
    statistic: float | None = None
    p_value: float | None = None
    p_corrected: float | None = None

    def record(self) -> dict[str, Any]:
        """Return the fields as a plain record."""
        return asdict(self)


def compare_runs(
    results: Results,
    metric: str = "openauc",
    *,
    against: str | None = None,
    correction: Correction = "holm",
    pool: bool = False,
    test_share: float | None = None,
) -> list[RunComparison]:
    """Compare the methods of a study by paired t-tests over the same runs.

    A method is named by those of model, training method and detector that vary; a run
    is a repeat (a draw of the classes, or a test split) and a seed.

    Parameters
    ----------
    results
        The results, e.g. :func:`openset.runs.results` of a run folder.
    metric
        The metric to compare.
    against
        Test only this method against every other one; by default all pairs are tested.
    correction
        Correction for the number of all tests: ``"holm"``, ``"bonferroni"`` (as in the
        PostMax paper) or ``"none"``.
    pool
        One test over the runs of all protocols, instead of one per protocol. Protocols
        that share known test samples are not independent; p-values are then too small.
    test_share
        See :func:`paired_t`.

    References
    ----------
    PostMax paper (ECCV 2024), section 4.2: paired, two-tailed t-tests over five test
    splits, with Bonferroni's correction.

    Examples
    --------
    >>> from openset.results import Result
    >>> rows = [
    ...     Result(protocol="p", detector=d, repeat=i, metric="oosa", value=v + i / 9)
    ...     for d, noise in (("postmax", (3, 2, 4)), ("msp", (1, 1, 2)))
    ...     for i, v in enumerate(noise)
    ... ]
    >>> (test,) = compare_runs(Results(rows), "oosa")
    >>> test.a, test.b, round(test.difference, 2), round(test.p_value, 3)
    ('postmax', 'msp', 1.67, 0.038)
    """
    caller = "compare_runs"
    _check.one_of(caller, "correction", correction, CORRECTIONS)
    kept = [row for row in results if row.metric == metric]
    if not kept:
        have = sorted({row.metric for row in results})
        _check.one_of(caller, "metric", metric, have)
    who = names_of(kept)
    names = list(dict.fromkeys(who.values()))
    if against is not None:
        _check.one_of(caller, "against", against, names)
    if len(names) < 2:
        msg = _check.must(
            "of at least two methods", caller=caller, name="results", got=names
        )
        raise ValueError(msg)
    table = values_of(kept, who, "metric" if pool else "protocol")
    if pool or not any(row.protocol for row in kept):
        table = {ALL if pool else "": table[metric]}
    found = [
        _pair(protocol, metric, methods, pair, test_share)
        for protocol, methods in table.items()
        for pair in _pairs([name for name in names if name in methods], against)
    ]
    return _corrected(found, correction)


def _corrected(
    found: Sequence[RunComparison], correction: Correction
) -> list[RunComparison]:
    """Correct the p-values for the number of tests; not all pairs can be tested."""
    p_values = [one.p_value for one in found if one.p_value is not None]
    corrected = iter(adjust(p_values, correction))
    return [
        one if one.p_value is None else replace(one, p_corrected=next(corrected))
        for one in found
    ]


def _pairs(names: Sequence[str], against: str | None) -> list[tuple[str, str]]:
    if against is None:
        return list(combinations(names, 2))
    if against not in names:
        return []
    return [(against, other) for other in names if other != against]


def _pair(
    protocol: str,
    metric: str,
    methods: Mapping[str, Mapping[tuple[Any, ...], float]],
    pair: tuple[str, str],
    test_share: float | None,
) -> RunComparison:
    a, b = pair
    if methods[a].keys() != methods[b].keys():
        (run, *_) = methods[a].keys() ^ methods[b].keys()
        missing = a if run in methods[b] else b
        msg = _check.must(
            "of the same runs",
            caller="compare_runs",
            name=f"results of {a!r} and {b!r}" + (protocol and f" on {protocol!r}"),
            got=f"no run {run} of {missing!r}",
            remedy="Finish the study first: openset bench STUDY.yaml --out DIR",
        )
        raise ValueError(msg)
    runs = sorted(methods[a])
    values = {name: np.array([methods[name][run] for run in runs]) for name in pair}
    one = RunComparison(
        protocol=protocol,
        metric=metric,
        a=a,
        b=b,
        mean_a=float(values[a].mean()),
        mean_b=float(values[b].mean()),
        difference=float((values[a] - values[b]).mean()),
        n=len(runs),
    )
    try:
        (test,) = paired_t(values, "none", test_share=test_share)
    except UndefinedMetricError:
        return one
    return replace(one, statistic=test.statistic, p_value=test.p_value)
