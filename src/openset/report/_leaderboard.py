"""The leaderboard: means over repeats, their spread, the best and the runner-up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from openset._types import ArtefactError
from openset.report._headings import Headings
from openset.report._runs import Run, Value
from openset.stats import independent_runs

_MOST = 7


@dataclass(frozen=True)
class Score:
    """Result of a method in one metric: mean over repeats, spread, interval, rank."""

    mean: float
    spread: float | None  # standard deviation over repeats
    low: float | None  # ends of the error bar: interval of one run, or mean ± spread
    high: float | None
    n: int
    rank: int = 0


@dataclass(frozen=True, eq=False)
class Board:
    """Leaderboard of a protocol: methods by row, best first; `metrics` by column."""

    metrics: tuple[str, ...]
    methods: tuple[str, ...]
    scores: Mapping[str, Mapping[str, Score]]  # method -> metric -> score

    def column(self, metric: str) -> list[Score]:
        """Return the scores of all methods in a metric."""
        return [own[metric] for own in self.scores.values() if metric in own]


@dataclass(frozen=True, eq=False)
class Overview:
    """The headline metric over several protocols."""

    protocols: tuple[str, ...]
    methods: tuple[str, ...]
    scores: Mapping[str, Mapping[str, Score]]  # method -> protocol -> score
    mean: Mapping[str, float]
    mean_rank: Mapping[str, float | None]

    def column(self, protocol: str) -> list[Score]:
        """Return the scores of all methods on a protocol."""
        return [own[protocol] for own in self.scores.values() if protocol in own]


def board(runs: Sequence[Run], headline: str, headings: Headings) -> Board:
    """Aggregate the runs of one protocol."""
    present = {metric for run in runs for metric in run.values}
    chosen = _shown(present, headline, headings)
    scores: dict[str, dict[str, Score]] = {run.method: {} for run in runs}
    for metric in chosen:
        having = [run for run in runs if metric in run.values]
        for method, score in _scores(having, metric).items():
            scores[method][metric] = score
    for metric in chosen:
        of_metric = {name: own for name, own in scores.items() if metric in own}
        _rank(of_metric, metric, headings.sign(metric))
    first = chosen[0]
    order = sorted(
        scores,
        key=lambda name: (
            scores[name][first].rank if first in scores[name] else len(scores),
            name,
        ),
    )
    return Board(tuple(chosen), tuple(order), scores)


def _shown(present: set[str], headline: str, headings: Headings) -> list[str]:
    """Return the metrics of the table, the headline first."""
    chosen = [headline] if headline in present else []
    chosen += [
        key
        for key, heading in headings.items()
        if key in present and key != headline and heading.better != "neither"
    ]
    if "oosa" in chosen and headline != "osa":  # one of the two is enough
        chosen = [name for name in chosen if name != "osa"]
    chosen = (chosen or sorted(present))[:_MOST]
    if not chosen:
        msg = (
            "report: cells must have metrics, got none in any of them. Run the study "
            "again"
        )
        raise ArtefactError(msg)
    return chosen


def overview(boards: Mapping[str, Board], headline: str, sign: int) -> Overview:
    """Put the headline metric of several protocols side by side, best first.

    `sign` is -1 if higher values are better, 1 if lower ones are.
    """
    scores: dict[str, dict[str, Score]] = {}
    for protocol, one in boards.items():
        for method, own in one.scores.items():
            if headline in own:
                scores.setdefault(method, {})[protocol] = own[headline]
    mean = {m: fmean(s.mean for s in own.values()) for m, own in scores.items()}
    # Ranks over different protocols are not comparable: none is given.
    mean_rank = {
        method: fmean(s.rank for s in own.values()) if len(own) == len(boards) else None
        for method, own in scores.items()
    }
    order = sorted(
        scores,
        key=lambda name: (
            mean_rank[name] is None,
            mean_rank[name] or 0,
            sign * mean[name],
            name,
        ),
    )
    return Overview(tuple(boards), tuple(order), scores, mean, mean_rank)


def _scores(runs: Sequence[Run], metric: str) -> dict[str, Score]:
    """Return mean and spread of each method over independent runs."""
    values: dict[str, dict[tuple[str, int, int, int], Value]] = {}
    for run in runs:
        values.setdefault(run.method, {})[run.place] = run.values[metric]
    means, _ = independent_runs(
        {m: {at: v.value for at, v in of.items()} for m, of in values.items()}
    )
    found = {}
    for method, of_method in means.items():
        units, every = list(of_method.values()), list(values[method].values())
        mean = fmean(units)
        spread = stdev(units) if len(units) > 1 else None
        ends = (None, None) if len(every) > 1 else (every[0].low, every[0].high)
        if spread is not None:
            ends = (mean - spread, mean + spread)
        found[method] = Score(mean, spread, *ends, len(units))
    return found


def _rank(scores: Mapping[str, dict[str, Score]], metric: str, sign: int) -> None:
    """Rank the methods; values equal to the last digit shown share a rank."""
    shown = {name: round(own[metric].mean, 4) * sign for name, own in scores.items()}
    for name, own in scores.items():
        old = own[metric]
        rank = 1 + sum(other < shown[name] for other in shown.values())
        own[metric] = Score(old.mean, old.spread, old.low, old.high, old.n, rank)
