"""The leaderboards: tables of `openset.stats`, and tests of pairs of methods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from openset import metrics, stats
from openset._types import UndefinedMetricError
from openset.report.display import Brief
from openset.report.read import Run, Study
from openset.scores import Scores, seems_reordered
from openset.stats.boards import Entry

TESTED = {"openauc", "auroc"}
"""Metrics whose differences have a formula; a bootstrap of every pair takes long."""

_MOST = 7  # columns, if the study does not name its metrics


@dataclass(frozen=True, eq=False)
class Board:
    """Leaderboard: methods by row, best first; metrics or problems by column.

    `ends` are those of error bars: of one run its interval, of several one standard
    deviation.
    """

    methods: tuple[str, ...]
    columns: tuple[str, ...]
    entries: Mapping[tuple[str, str], Entry]
    notes: tuple[str, ...]
    ends: Mapping[tuple[str, str], tuple[float, float]]
    mean: Mapping[str, float]  # over the columns, if these are problems
    rank: Mapping[str, float]

    def mark(self, method: str, column: str) -> str:
        """Return "best" or "second", where that says something."""
        place = self.entries[method, column].place if len(self.methods) > 1 else 0
        return ("", "best", "second")[place]

    def runs(self, method: str) -> int:
        """Return the number of independent runs of a method."""
        return max(
            (e.n for (m, _), e in self.entries.items() if m == method), default=0
        )


def board(study: Study, runs: Sequence[Run]) -> Board:
    """Make the leaderboard of one problem: metrics by column, the headline first."""
    columns = _shown(study, {metric for run in runs for metric in run.values})
    made = stats.leaderboard(study.results(runs), columns)
    ends = {}
    for at, entry in made.entries.items():
        own = [run.values[at[1]] for run in runs if run.method == at[0]]
        if entry.spread is not None:
            ends[at] = (entry.mean - entry.spread, entry.mean + entry.spread)
        elif len(own) == 1 and own[0].low is not None and own[0].high is not None:
            ends[at] = (own[0].low, own[0].high)
    sign = _sign(study, columns[0])
    first = {m: e.mean for (m, at), e in made.entries.items() if at == columns[0]}
    order = sorted(made.rows, key=lambda m: (m not in first, sign * first.get(m, 0), m))
    notes = tuple(note for note in made.notes if not note.startswith("Mean ranks"))
    return Board(tuple(order), tuple(columns), made.entries, notes, ends, {}, {})


def overview(study: Study, headline: str) -> Board:
    """Put the headline metric of several problems side by side, the best first."""
    made = stats.leaderboard(study.results(), headline)
    mean = {
        row: fmean(e.mean for (method, _), e in made.entries.items() if method == row)
        for row in made.rows
    }
    rank = {} if made.ranks is None else dict(made.ranks.mean)
    n = {row: sum((row, one) in made.entries for one in made.columns) for row in mean}
    sign = _sign(study, headline)
    order = sorted(mean, key=lambda m: (-n[m], rank.get(m, 0), sign * mean[m], m))
    return Board(tuple(order), made.columns, made.entries, made.notes, {}, mean, rank)


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
