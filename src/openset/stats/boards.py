"""`leaderboard`: a table of results, with spread, tests and ranks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Column, Table

from openset import _check, _io, metrics
from openset.results import Results
from openset.stats import same_runs, tables
from openset.stats.friedman import Ranks, ranks
from openset.stats.same_runs import Correction, Values, independent_runs, values_by

Direction = Literal["higher", "lower"]

_ARROWS = {"higher": "↑", "lower": "↓"}


@dataclass(frozen=True)
class Entry:
    """One cell of the table: mean and spread over `n` independent runs, and its rank.

    `spread` is the standard deviation (n - 1), None for a single run. `place` is 1 for
    the best of its column, 2 for the runner-up, else 0. `p_value` is that of the paired
    test against the best over the same runs, corrected for the number of tests; None
    for the best itself and if no test is possible. `is_worse` says whether it is
    significant.
    """

    mean: float
    spread: float | None
    n: int
    place: int = 0
    p_value: float | None = None
    is_worse: bool = False


@dataclass(frozen=True)
class Leaderboard:
    """Methods by row, protocols (or metrics) by column; best first.

    Printed by rich and shown in notebooks as a table; :meth:`save` writes Markdown, CSV
    or LaTeX (booktabs) by the ending. `headings` and `metrics` are those of each
    column; `notes` stand below the table.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    entries: Mapping[tuple[str, str], Entry]
    headings: Mapping[str, str]
    metrics: Mapping[str, str]
    ranks: Ranks | None
    notes: tuple[str, ...]

    def records(self) -> list[dict[str, Any]]:
        """Return one plain record per row and column, with full precision."""
        rank = {} if self.ranks is None else self.ranks.mean
        return [
            {"method": row, "column": column, **asdict(self.entries[row, column])}
            | {"mean_rank": rank.get(row), "metric": self.metrics[column]}
            for row in self.rows
            for column in self.columns
            if (row, column) in self.entries
        ]

    def to_markdown(self) -> str:
        """Return a Markdown table, best bold, runner-up in italics; and the notes."""
        cells = self._cells(tables.markdown_text, ("**{}**", "*{}*"))
        return "\n".join([tables.markdown(*cells), "", " ".join(self.notes), ""])

    def to_latex(self) -> str:
        """Return a LaTeX table for booktabs, shares in percent.

        The best is bold, the runner-up underlined.
        """
        marks = (r"\textbf{{{}}}", r"\underline{{{}}}")
        cells = self._cells(tables.latex_text, marks, percent=True)
        return tables.latex(*cells, notes=self.notes)

    def to_csv(self) -> str:
        """Return one line per row and column, with full precision."""
        return tables.csv_text(self.records())

    def save(self, path: str | Path) -> Path:
        """Write ``.md``, ``.csv`` or ``.tex``."""
        path = Path(path)
        kinds = {".md": self.to_markdown, ".csv": self.to_csv, ".tex": self.to_latex}
        _io.put(path, kinds[_check.ending("Leaderboard.save", path, [*kinds])]())
        return path

    _repr_markdown_ = to_markdown  # how notebooks show it

    def __rich__(self) -> Table:
        marks = ("[bold green]{}[/bold green]", "[underline]{}[/underline]")
        (_, *heads), rows = self._cells(escape, marks)
        table = Table(
            "",
            *(Column(head, justify="right") for head in heads),
            title=escape(self.title),
            title_justify="left",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 1, 0, 0),  # two spaces between columns, as in all our tables
            caption=escape("\n".join(self.notes)),
            caption_justify="left",
        )
        for row in rows:
            table.add_row(*row)
        return table

    def _cells(
        self,
        clean: Callable[[str], str],
        marks: Sequence[str],
        *,
        percent: bool = False,
    ) -> tuple[list[str], list[list[str]]]:
        """Return header and rows: mean ± spread by column, then the mean rank."""
        shares = {row.key for row in metrics.table() if row.bounds == (0.0, 1.0)}
        percents = {c: percent and self.metrics[c] in shares for c in self.columns}
        # A table of protocols says little without the metric.
        is_named = self.title in "".join(self.headings.values())
        heads = ["" if is_named else self.title]
        for column, in_percent in percents.items():
            text = self.headings[column]
            heads.append(f"{text[:-2]} (%){text[-2:]}" if in_percent else text)
        rows = [[clean(row)] for row in self.rows]
        for row, cells in zip(self.rows, rows, strict=True):
            for column, in_percent in percents.items():
                entry = self.entries.get((row, column))
                if entry is None:
                    cells.append(clean("–"))
                    continue
                mean = tables.mean(entry.mean, entry.spread, in_percent)
                marked = ("{}", *marks)[entry.place].format(clean(mean))
                cells.append(marked + clean("†" * entry.is_worse))
            if self.ranks is not None:
                cells.append(f"{self.ranks.mean[row]:.2f}")
        last = ["mean rank"] * (self.ranks is not None)
        return [*map(clean, heads), *last], rows


def leaderboard(
    results: Results,
    metric: str | Sequence[str] = "openauc",
    *,
    level: float = 0.95,
    correction: Correction = "holm",
) -> Leaderboard:
    """Make a table of results: mean ± spread over runs, best and runner-up marked.

    A row is a method: model, training method and detector, where these vary. Runs that
    are not independent are averaged first (:func:`independent_runs`). Three methods or
    more are ranked, over protocols if there are several, else over runs.

    Parameters
    ----------
    results
        The results, e.g. of a run folder. Whether higher or lower is better is known
        from the table of metrics, for other metrics from `Results.better`.
    metric
        A metric, with a column for each protocol; or a list of metrics, a column for
        each, over all protocols, of which the first orders rows.
    level
        Significance level of the tests and of the critical difference.
    correction
        Correction for the number of tests in a column: ``"holm"``, ``"bonferroni"``,
        ``"none"``.

    Examples
    --------
    >>> from openset.results import Result
    >>> rows = [
    ...     Result(detector=d, seed=s, metric="auroc", value=v + s * (0.01 + v / 100))
    ...     for d, v in (("msp", 0.8), ("knn", 0.9))
    ...     for s in (0, 1, 2)
    ... ]
    >>> print(leaderboard(Results(rows), "auroc").to_markdown())
    | | AUROC ↑ |
    |---|---|
    | knn | **0.919 ± 0.019** |
    | msp | *0.818 ± 0.018*† |
    <BLANKLINE>
    Mean ± standard deviation over 3 seeds of one draw of the classes. † worse than \
the best of its column (paired t-test over the same runs, holm correction, level 0.95).
    <BLANKLINE>
    """
    _check.open_unit("leaderboard", "level", level)
    wanted = [metric] if isinstance(metric, str) else list(metric)
    have = sorted({row.metric for row in results})
    for name in wanted or [""]:
        _check.one_of("leaderboard", "metric", name, have)
    of_metrics = values_by(results, wanted, "metric")
    first = wanted[0]
    values = {name: of_metrics[name] for name in wanted}
    metric_of = {name: name for name in wanted}
    labels = {row.key: row.short for row in metrics.table()}
    headings = {name: labels.get(name, name) for name in wanted}
    title = ", ".join(headings.values())
    # Results without protocols have the metric as their column.
    if isinstance(metric, str) and any(results.where(metric=metric).column("protocol")):
        values = values_by(results, wanted, "protocol")
        metric_of = dict.fromkeys(values, metric)
        headings = {name: name for name in values}
    better = {name: direction(name, results.better) for name in wanted}
    entries: dict[tuple[str, str], Entry] = {}
    over = []
    for column, table in values.items():
        found, what = _entries(table, better[metric_of[column]], level, correction)
        entries |= {(row, column): entry for row, entry in found.items()}
        over.append(what)
    placed = _ranks(of_metrics[first], better[first], level)
    # By mean rank, else by the first column; those without an entry last.
    sign, left = -1 if better[first] == "higher" else 1, next(iter(values))
    means = {row: sign * one.mean for (row, at), one in entries.items() if at == left}
    names = dict.fromkeys(row for row, _ in entries)
    rows = sorted(names, key=lambda name: means.get(name, np.inf))
    how = f"{correction} correction, level {level:g}"
    return Leaderboard(
        title=title,
        rows=tuple(rows if placed is None else placed.mean),
        columns=tuple(values),
        entries=entries,
        headings={
            column: f"{text} {_ARROWS[better[metric_of[column]]]}"
            for column, text in headings.items()
        },
        metrics=metric_of,
        ranks=placed,
        notes=tuple(_notes(values, entries, over, how, placed)),
    )


def direction(metric: str, stored: Mapping[str, str] | None = None) -> Direction:
    """Return whether higher or lower is better.

    For a metric that is not in the table of metrics `stored` says it, such as
    `Results.better`; without it, raise.

    Examples
    --------
    >>> direction("fpr_at_tpr_unknown"), direction("f_score_micro"), direction("oosa")
    ('lower', 'higher', 'higher')
    """
    known = {row.key: row.better for row in metrics.table()}
    better = known.get(metric, (stored or {}).get(metric, "unknown"))
    if better not in _ARROWS:
        given = f"Results(rows, better={{{metric!r}: 'lower'}})"
        remedy = f"Give it: {given}; or register the metric: metrics.register"
        what = f"the direction of {metric!r}"
        _check.fail("stats.direction", what, "higher or lower", better, remedy)
    return better  # type: ignore[return-value]


def _entries(
    table: Values, better: str, level: float, correction: Correction
) -> tuple[dict[str, Entry], str]:
    values, over = independent_runs(table)
    means = {row: float(np.mean(list(of.values()))) for row, of in values.items()}
    sign = -1 if better == "higher" else 1
    # Means of the same values in another order differ by rounding errors.
    rounded = {row: round(mean, 12) for row, mean in means.items()}
    order = sorted(set(rounded.values()), key=lambda mean: sign * mean)
    best = min(means, key=lambda row: sign * means[row])
    pairs = [
        (best, row) for row in table if row != best and {*table[row]} == {*table[best]}
    ]
    tests = same_runs.corrected(same_runs.pair_tests(table, pairs), correction)
    p_values = {one.b: one.p_corrected for one in tests}
    found = {}
    for row, of_row in values.items():
        runs, p_value = [*of_row.values()], p_values.get(row)
        place = order.index(rounded[row]) + 1
        found[row] = Entry(
            mean=means[row],
            spread=float(np.std(runs, ddof=1)) if len(runs) > 1 else None,
            n=len(runs),
            place=place if place <= 2 else 0,
            p_value=p_value,
            is_worse=p_value is not None and p_value < 1 - level,
        )
    return found, over


def _ranks(table: Values, better: Direction, level: float) -> Ranks | None:
    """Rank the methods over the protocols, or else the runs, that all of them have."""
    values, _ = independent_runs(table)
    is_one = len({unit[0] for of_row in values.values() for unit in of_row}) == 1
    blocks: dict[str, dict[Any, list[float]]] = {name: {} for name in values}
    for name, of_row in values.items():
        for unit, value in of_row.items():
            blocks[name].setdefault(unit if is_one else unit[0], []).append(value)
    shared = sorted(set.intersection(*(set(of) for of in blocks.values())))
    if len(blocks) < 3 or len(shared) < 2:
        return None
    means = {row: [float(np.mean(of[b])) for b in shared] for row, of in blocks.items()}
    return ranks(means, better=better, level=level)


def _notes(
    values: Mapping[str, Values],
    entries: Mapping[tuple[str, str], Entry],
    over: Iterable[str],
    how: str,
    placed: Ranks | None,
) -> Iterable[str]:
    if all(entry.n == 1 for entry in entries.values()):
        yield "One run each: no standard deviation."
    else:
        yield f"Mean ± standard deviation over {' or '.join(dict.fromkeys(over))}."
    if any(len({frozenset(of) for of in one.values()}) > 1 for one in values.values()):
        yield "Some methods lack runs that others have: their means are not comparable."
    if any(entry.p_value is not None for entry in entries.values()):
        yield (
            "† worse than the best of its column (paired t-test over the same runs, "
            f"{how})."
        )
    if placed is not None:
        runs = [run for table in values.values() for of in table.values() for run in of]
        what = "runs" if len({run[0] for run in runs}) == 1 else "protocols"
        yield (
            f"Mean ranks over {placed.n} {what}: Friedman p = {placed.p_value:.2g}; "
            "ranks differ significantly if at least "
            f"{placed.critical_difference:.2f} apart (Nemenyi, level {placed.level:g})."
        )
