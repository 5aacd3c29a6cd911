"""Tests of each pair of methods on the same samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from openset._types import UndefinedMetricError
from openset.report._display import Brief
from openset.report._runs import Run
from openset.scores import Scores, seems_reordered
from openset.stats import Comparison, adjust, compare

TESTED = {"openauc", "auroc"}
"""Metrics whose differences have a formula; a bootstrap of every pair takes long."""


@dataclass(frozen=True, eq=False)
class PairTests:
    """The tests of all pairs in one metric, and how many pairs have none."""

    metric: str
    brief: Brief
    n_left_out: int


def paired(first: Scores, second: Scores, metric: str) -> Comparison | None:
    """Compare two methods; None if their samples differ or seem to be reordered.

    Samples are paired by their ids, where both have them.
    """
    try:
        second = second.in_order_of(first)
    except ValueError:
        return None  # they are of different samples
    if seems_reordered(second, first):
        return None
    return compare(first, second, metric)


def pair_tests(pairs: Sequence[tuple[Run, Scores]], metric: str) -> PairTests | None:
    """Test each pair of methods; None if there is none that can be tested."""
    if metric not in TESTED:
        return None
    tests = {}
    chosen = list(combinations(pairs, 2))
    for (a, first), (b, second) in chosen:
        try:
            found = paired(first, second, metric)
        except UndefinedMetricError:  # such as one known sample alone
            found = None
        if found is not None:
            tests[a.method, b.method] = found
    if not tests:
        return None
    corrected = adjust([one.p_value for one in tests.values()], "holm")
    rows = tuple(
        (
            *names,
            one.difference,
            one.interval.low,
            one.interval.high,
            one.p_value,
            float(p),
        )
        for (names, one), p in zip(tests.items(), corrected, strict=True)
    )
    header = ("a", "b", "a \N{MINUS SIGN} b", "low", "high", "p", "p (Holm)")
    return PairTests(metric, Brief(header, rows), len(chosen) - len(tests))
