"""`leaderboard`: a table of results, with spread, tests and ranks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from openset import _check, metrics
from openset._types import UndefinedMetricError
from openset.results import Result, Results
from openset.stats import _formats
from openset.stats._paired_t import CORRECTIONS, Correction, adjust, paired_t
from openset.stats._ranks import Ranks, ranks

Columns = Literal["protocol", "metric"]
Direction = Literal["higher", "lower"]

_WHO = ("model", "method", "detector")
_JOIN = " · "


@dataclass(frozen=True)
class Entry:
    """One cell of the table: mean and spread over `n` runs, and its rank.

    `spread` is the standard deviation (n - 1), None for a single run. `place` is 1 for
    the best of its column, 2 for the runner-up, else 0. `p_value` is that of the paired
    test against the best over the same runs, corrected for the number of tests; None
    for the best itself and if no test is possible.
    """

    mean: float
    spread: float | None
    n: int
    place: int = 0
    p_value: float | None = None


@dataclass(frozen=True)
class Leaderboard:
    """Methods by row, protocols (or metrics) by column; best first.

    Printed by rich and shown in notebooks as a table; :meth:`save` writes Markdown,
    CSV, LaTeX (booktabs) or Parquet by the ending, one of `ENDINGS`.
    """

    ENDINGS: ClassVar = _formats.ENDINGS

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    better: Mapping[str, Direction]
    entries: Mapping[tuple[str, str], Entry]
    ranks: Ranks | None
    level: float
    correction: Correction
    blocks: str
    labels: Mapping[str, str] = field(default_factory=dict)
    """Names of the columns in tables, where they differ from the keys of metrics."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Metric of each column, by its key."""
    is_uneven: bool = False
    """Whether the methods of a column have different runs."""

    def records(self) -> list[dict[str, Any]]:
        """Return one plain record per row and column, with full precision."""
        found = []
        for row in self.rows:
            for column in self.columns:
                entry = self.entries.get((row, column))
                if entry is None:
                    continue
                found.append(
                    {
                        "method": row,
                        "column": column,
                        "mean": entry.mean,
                        "spread": entry.spread,
                        "n": entry.n,
                        "place": entry.place,
                        "p_value": entry.p_value,
                        "mean_rank": self.ranks.mean[row] if self.ranks else None,
                        "metric": self.metrics.get(column, column),
                    }
                )
        return found

    def is_worse(self, entry: Entry) -> bool:
        """Whether an entry is significantly worse than the best of its column."""
        return entry.p_value is not None and entry.p_value < 1 - self.level

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes to print below the table."""
        return tuple(_notes(self))

    def to_markdown(self) -> str:
        """Return a Markdown table: best bold, runner-up in italics."""
        return _formats.markdown(self)

    def to_latex(self) -> str:
        """Return a LaTeX table for booktabs: best bold, runner-up underlined."""
        return _formats.latex(self)

    def to_csv(self) -> str:
        """Return one line per row and column, with full precision."""
        return _formats.csv_text(self.records())

    def to_frame(self) -> Any:
        """Return the records as a pandas table."""
        return _formats.to_frame(self.records())

    def to_rich(self) -> Any:
        """Return a table for the terminal."""
        return _formats.rich_table(self)

    def __rich__(self) -> Any:
        return self.to_rich()

    def _repr_markdown_(self) -> str:  # how notebooks show it
        return self.to_markdown()

    def save(self, path: str | Path) -> Path:
        """Write ``.md``, ``.csv``, ``.tex`` or ``.parquet`` (extra `tables`)."""
        return _formats.save(self, Path(path))


def leaderboard(
    results: Results,
    metric: str | Sequence[str] = "openauc",
    *,
    columns: Columns = "protocol",
    blocks: Literal["auto", "protocol", "run"] = "auto",
    level: float = 0.95,
    correction: Correction = "holm",
    direction: Mapping[str, Direction] | None = None,
) -> Leaderboard:
    """Make a table of results: mean ± spread over repeats, best and runner-up marked.

    A row is a method: model, training method and detector, where these vary. A column
    is a protocol (for one metric), or a metric (over all protocols). A run is a repeat
    and a seed.

    Parameters
    ----------
    results
        The results, e.g. :func:`openset.runs.results` of a run folder.
    metric
        The metric; several for ``columns="metric"``.
    columns
        ``"protocol"`` or ``"metric"``.
    blocks
        Units to rank over: ``"protocol"`` (the mean of its repeats, as Friedman's test
        requires) or every ``"run"``. By default protocols, if there are several.
    level
        Significance level of the tests and of the critical difference.
    correction
        Correction for the number of tests in a column: ``"holm"``, ``"bonferroni"``,
        ``"none"``.
    direction
        Whether ``"higher"`` or ``"lower"`` is better, for metrics that are not in the
        table of metrics: ``{"nll": "lower"}``. By default as in `results`, which know
        it from the study.

    Examples
    --------
    >>> rows = [
    ...     Result(detector=d, seed=s, metric="auroc", value=v + s * (0.01 + v / 100))
    ...     for d, v in (("msp", 0.8), ("knn", 0.9))
    ...     for s in (0, 1, 2)
    ... ]
    >>> print(leaderboard(Results(rows), "auroc").to_markdown())
    | | AUROC ↑ | mean rank |
    |---|---|---|
    | knn | **0.919 ± 0.019** | 1.00 |
    | msp | *0.818 ± 0.018*† | 2.00 |
    """
    wanted = [metric] if isinstance(metric, str) else list(metric)
    _check.one_of("leaderboard", "columns", columns, ["protocol", "metric"])
    _check.one_of("leaderboard", "blocks", blocks, ["auto", "protocol", "run"])
    _check.one_of("leaderboard", "correction", correction, CORRECTIONS)
    _check.open_unit("leaderboard", "level", level)
    _check_metrics(results, wanted, columns)
    kept = [row for row in results if row.metric in set(wanted)]
    who = names_of(kept)
    values = values_of(kept, who, columns)
    if columns == "metric":  # in the given order: rows are sorted by the first
        values = {name: values[name] for name in wanted}
    ways = {name: _direction(name, direction or {}, results.better) for name in wanted}
    better = {
        column: ways[column if columns == "metric" else wanted[0]] for column in values
    }
    entries = {
        (row, column): entry
        for column, table in values.items()
        for row, entry in _entries(table, better[column], correction).items()
    }
    headline = [row for row in kept if row.metric == wanted[0]]
    # A protocol may have the name of a metric: it keeps it.
    are_metrics = columns == "metric" or not any(row.protocol for row in kept)
    found, over = _ranks(headline, who, ways[wanted[0]], blocks, level)
    return Leaderboard(
        title=", ".join(_labels(wanted).values()),
        rows=_order(who.values(), entries, list(values), better, found),
        columns=tuple(values),
        better=better,
        entries=entries,
        ranks=found,
        level=level,
        correction=correction,
        blocks=over,
        labels=_labels(wanted) if are_metrics else {},
        metrics={c: c if columns == "metric" else wanted[0] for c in values},
        is_uneven=any(
            len({frozenset(runs) for runs in table.values()}) > 1
            for table in values.values()
        ),
    )


def _check_metrics(results: Results, wanted: Sequence[str], columns: Columns) -> None:
    """Raise unless there are results of the metrics, and columns to put them in."""
    for name, given in (("results", results), ("metric", wanted)):
        if not len(given):
            got = f"no {'rows' if name == 'results' else 'names'}"
            raise ValueError(
                _check.must("non-empty", caller="leaderboard", name=name, got=got)
            )
    have = sorted({row.metric for row in results})
    for name in wanted:
        _check.one_of("leaderboard", "metric", name, have)
    if columns == "protocol" and len(wanted) > 1:
        msg = _check.must(
            "one metric for columns='protocol'",
            caller="leaderboard",
            name="metric",
            got=", ".join(wanted),
        )
        raise ValueError(msg)


def _labels(keys: Iterable[str]) -> dict[str, str]:
    short = {row.key: row.short for row in metrics.table()}
    return {key: short.get(key, key) for key in keys}


def direction(metric: str, stored: Mapping[str, str] | None = None) -> Direction:
    """Return whether higher or lower is better.

    For a metric that is not in the table of metrics `stored` says it, such as
    `Results.better`; without it, raise.

    Examples
    --------
    >>> direction("fpr_at_tpr_unknown"), direction("f_score_micro"), direction("oosa")
    ('lower', 'higher', 'higher')
    """
    return _direction(metric, {}, stored or {})


def _direction(
    metric: str, given: Mapping[str, Direction], stored: Mapping[str, str]
) -> Direction:
    if metric in given:
        rule = f"direction of {metric!r}"
        return _check.one_of("leaderboard", rule, given[metric], ["higher", "lower"])  # type: ignore[return-value]
    known = {row.key: row.better for row in metrics.table()}
    better = known.get(metric, stored.get(metric, "unknown"))
    if better not in ("higher", "lower"):
        why = "a metric that is not in the table of metrics"
        if better == "neither":
            why = "a metric for which neither is better"
        msg = _check.must(
            "known",
            caller="stats.direction",
            name=f"the direction of {metric!r}",
            got=why,
            remedy=f"Give it: leaderboard(..., direction={{{metric!r}: 'lower'}}); "
            "or register the metric: openset.metrics.register; in the shell name it "
            "as --metric package.module:Name",
        )
        raise ValueError(msg)
    return better  # type: ignore[return-value]


_Run = tuple[Any, ...]
_Who = tuple[str, ...]


def _who(row: Result) -> _Who:
    return tuple(getattr(row, name) for name in _WHO)


def names_of(rows: Iterable[Result]) -> dict[_Who, str]:
    """Name each method by those of model, training method and detector that vary."""
    found = list(dict.fromkeys(map(_who, rows)))
    vary = [i for i in range(len(_WHO)) if len({one[i] for one in found}) > 1]
    vary = vary or [i for i in range(len(_WHO)) if found and found[0][i]][-1:]
    names = {one: _JOIN.join(one[i] for i in vary if one[i]) for one in found}
    if len(set(names.values())) == len(found):
        return names
    # A model and a detector may have the same name: say which is which.
    return {
        one: _JOIN.join(f"{_WHO[i]} {one[i]}" for i in vary if one[i]) for one in found
    }


def values_of(
    rows: Iterable[Result], who: Mapping[_Who, str], columns: Columns
) -> dict[str, dict[str, dict[_Run, float]]]:
    """Return column -> method -> run -> value."""
    table: dict[str, dict[str, dict[_Run, float]]] = {}
    for row in rows:
        run: _Run = (row.repeat, row.seed)
        column = row.protocol or row.metric
        if columns == "metric":
            column, run = row.metric, (row.protocol, *run)
        runs = table.setdefault(column, {}).setdefault(who[_who(row)], {})
        if run in runs:
            msg = f"leaderboard: runs must be unique, got {row} twice"
            raise ValueError(msg)
        runs[run] = row.value
    return table


def _entries(
    table: Mapping[str, Mapping[_Run, float]], better: str, correction: Correction
) -> dict[str, Entry]:
    means = {row: float(np.mean(list(runs.values()))) for row, runs in table.items()}
    sign = -1 if better == "higher" else 1
    # Means of the same values in another order differ by rounding errors.
    rounded = {row: round(mean, 12) for row, mean in means.items()}
    order = sorted(set(rounded.values()), key=lambda mean: sign * mean)
    tests = _tests(table, min(means, key=lambda row: sign * means[row]), correction)
    found = {}
    for row, runs in table.items():
        values = np.array(list(runs.values()))
        place = order.index(rounded[row]) + 1
        found[row] = Entry(
            mean=means[row],
            spread=float(values.std(ddof=1)) if values.size > 1 else None,
            n=values.size,
            place=place if place <= 2 else 0,
            p_value=tests.get(row),
        )
    return found


def _tests(
    table: Mapping[str, Mapping[_Run, float]], best: str, correction: Correction
) -> dict[str, float]:
    """Test the best against every method that has the same runs."""
    runs = sorted(table[best])
    of_best = [table[best][run] for run in runs]
    p_values = {}
    for row, found in table.items():
        if row == best or sorted(found) != runs:
            continue
        pair = {best: of_best, row: [found[run] for run in runs]}
        try:
            p_values[row] = paired_t(pair, "none")[0].p_value
        except UndefinedMetricError:
            continue  # no test is possible with a single run, or equal differences
    corrected = adjust(list(p_values.values()), correction)
    return dict(zip(p_values, corrected, strict=True))


def _ranks(
    rows: Sequence[Result],
    who: Mapping[_Who, str],
    better: Direction,
    blocks: str,
    level: float,
) -> tuple[Ranks | None, str]:
    """Rank the methods over the blocks that all of them have."""
    protocols = {row.protocol for row in rows}
    if blocks == "auto":
        blocks = "protocol" if len(protocols) > 1 else "run"
    found: dict[str, dict[_Run, list[float]]] = {}
    for row in rows:
        block: _Run = (row.protocol,)
        if blocks == "run":
            block += (row.repeat, row.seed)
        found.setdefault(who[_who(row)], {}).setdefault(block, []).append(row.value)
    shared = set.intersection(*(set(of) for of in found.values())) if found else set()
    if len(found) < 2 or len(shared) < 2:
        return None, blocks
    table = {
        name: [float(np.mean(of[block])) for block in sorted(shared)]
        for name, of in found.items()
    }
    return ranks(table, better=better, level=level), blocks


def _order(
    names: Iterable[str],
    entries: Mapping[tuple[str, str], Entry],
    columns: Sequence[str],
    better: Mapping[str, str],
    found: Ranks | None,
) -> tuple[str, ...]:
    """Order by mean rank, else by the first column."""
    if found is not None:
        return tuple(found.mean)
    first = columns[0]
    sign = -1 if better[first] == "higher" else 1

    def place(name: str) -> tuple[bool, float]:
        entry = entries.get((name, first))
        return entry is None, 0.0 if entry is None else sign * entry.mean

    return tuple(sorted(dict.fromkeys(names), key=place))


def _notes(board: Leaderboard) -> Iterable[str]:
    counts = sorted({entry.n for entry in board.entries.values()})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    if counts == [1]:
        yield "One run each: no standard deviation."
    else:
        yield f"Mean ± standard deviation over {runs} runs."
    if board.is_uneven:
        yield "Some methods lack runs that others have: their means are not comparable."
    if any(entry.p_value is not None for entry in board.entries.values()):
        yield (
            f"† worse than the best of its column (paired t-test over the same runs, "
            f"{board.correction} correction, level {board.level:g})."
        )
    if board.ranks is not None:
        found = board.ranks
        yield (
            f"Mean ranks over {found.n} {board.blocks}s: Friedman p = "
            f"{found.p_value:.2g}; ranks differ significantly if at least "
            f"{found.critical_difference:.2f} apart (Nemenyi, level {found.level:g})."
        )
