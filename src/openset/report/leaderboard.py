"""The leaderboards: tables of `openset.stats`, and tests of pairs of methods."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

from openset import metrics, stats
from openset._types import UndefinedMetricError
from openset.report.display import Brief
from openset.report.read import Run, Study
from openset.scores import Scores, seems_reordered
from openset.stats import Leaderboard

TESTED = {"openauc", "auroc"}
"""Metrics whose differences have a formula; a bootstrap of every pair takes long."""

_MOST = 7  # columns, if the study does not name its metrics


def board(study: Study, runs: Sequence[Run]) -> Leaderboard:
    """Make the leaderboard of one problem: metrics by column, the headline first."""
    columns = _shown(study, {metric for run in runs for metric in run.values})
    made = stats.leaderboard(study.results(runs), columns)
    sign = _sign(study, columns[0])
    first = {m: e.mean for (m, at), e in made.entries.items() if at == columns[0]}
    order = sorted(made.rows, key=lambda m: (m not in first, sign * first.get(m, 0), m))
    notes = tuple(note for note in made.notes if not note.startswith("Mean ranks"))
    return replace(made, rows=tuple(order), notes=notes)


def overview(study: Study, headline: str) -> Leaderboard:
    """Put the headline metric of several problems side by side, the best first."""
    made = stats.leaderboard(study.results(), headline)
    rank = {} if made.ranks is None else made.ranks.mean
    sign = _sign(study, headline)

    def place(method: str) -> tuple[float, ...]:
        n = sum((method, one) in made.entries for one in made.columns)
        return -n, rank.get(method, 0), sign * average(method, made)

    order = sorted(made.rows, key=lambda method: (place(method), method))
    return replace(made, rows=tuple(order))


def average(method: str, made: Leaderboard) -> float:
    """Return the mean over the columns of a leaderboard, if these are problems."""
    return fmean(entry.mean for (m, _), entry in made.entries.items() if m == method)


def n_runs(method: str, made: Leaderboard) -> int:
    """Return the number of independent runs of a method."""
    return max(entry.n for (m, _), entry in made.entries.items() if m == method)


def ends(made: Leaderboard, runs: Sequence[Run]) -> dict[str, tuple[float, float]]:
    """Return the ends of error bars in the first column, by method.

    They are those of one standard deviation, or of the interval of a single run.
    """
    found, column = {}, made.columns[0]
    for (method, at), entry in made.entries.items():
        own = [run.values[at] for run in runs if run.method == method and at == column]
        if own and entry.spread is not None:
            found[method] = (entry.mean - entry.spread, entry.mean + entry.spread)
        elif len(own) == 1 and own[0].low is not None and own[0].high is not None:
            found[method] = (own[0].low, own[0].high)
    return found


def _sign(study: Study, metric: str) -> int:
    return -1 if stats.direction(metric, study.better) == "higher" else 1


def _shown(study: Study, present: set[str]) -> list[str]:
    """Return the metrics of the table: those of the study, or the most common ones."""
    better = {row.key: row.better for row in metrics.table()}
    more = [*study.metrics, "oosa"]
    if not study.metrics:
        more = [key for key in better if key != "osa" or "oosa" not in present]
    named = dict.fromkeys([study.headline, *more])
    chosen = [one for one in named if one in present and better.get(one) != "neither"]
    chosen = chosen or sorted(present)
    return chosen if study.metrics else chosen[:_MOST]


@dataclass(frozen=True, eq=False)
class PairTests:
    """The tests of all pairs in one metric, and how many pairs have none."""

    metric: str
    brief: Brief
    n_left_out: int


def pair_tests(pairs: Sequence[tuple[Run, Scores]], metric: str) -> PairTests | None:
    """Test each pair of methods on the same samples; None if there is none to test.

    Samples are paired by their ids, where both have them.
    """
    chosen = list(combinations(pairs, 2))
    if metric not in TESTED or not chosen:
        return None
    tests = {}
    for (a, first), (b, other) in chosen:
        try:
            second = other.in_order_of(first)
            if not seems_reordered(second, first):
                tests[a.method, b.method] = stats.compare(first, second, metric)
        except (ValueError, UndefinedMetricError):
            continue  # of other samples, or one known sample alone
    corrected = stats.adjust([one.p_value for one in tests.values()], "holm")
    rows = tuple(
        (*names, t.difference, t.interval.low, t.interval.high, t.p_value, p)
        for (names, t), p in zip(tests.items(), corrected, strict=True)
    )
    header = ("a", "b", "a \N{MINUS SIGN} b", "low", "high", "p", "p (Holm)")
    return PairTests(metric, Brief(header, rows), len(chosen) - len(tests))
