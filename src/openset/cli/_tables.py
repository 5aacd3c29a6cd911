"""Tables of metrics for the terminal, CSV and LaTeX."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import isfinite

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from openset._safe_text import csv_cell, visible
from openset.cli._console import OUT
from openset.cli._lists import percent, plain_table
from openset.metrics import Bracket, Evaluation, Interval, Metric, sections
from openset.stats import latex_text

_ARROWS = {"higher": "↑", "lower": "↓", "neither": " "}
_UNDEFINED = "–"  # a metric that these data do not define
NEEDS = "% Needs \\usepackage{booktabs}."
_BETWEEN, _EDGES = 2, 2  # spaces between the columns of a plain table, and around it


def show(
    evaluations: Mapping[str, Evaluation], *, title: str, rivals: bool = False
) -> RenderableType:
    """Show every metric with its interval; of `rivals`, the best is highlighted.

    Several sets are shown as columns if the terminal is wide enough, else as rows.
    """
    if len(evaluations) == 1:
        return _one_set(next(iter(evaluations.values())), title)
    columns = _sets_in_columns(evaluations, title, rivals=rivals)
    unbounded = OUT.options.update(max_width=10_000)
    if OUT.measure(columns, options=unbounded).maximum <= OUT.width:
        return columns
    level = next(iter(evaluations.values())).level
    legend = f"{title}; ± is half the width of the {percent(level)} interval"
    return Group(
        Text(legend, style="italic"), *_sets_in_rows(evaluations, rivals=rivals)
    )


def _one_set(evaluation: Evaluation, title: str) -> Table:
    table = plain_table(escape(title))
    table.add_column("metric")  # wrapped in a narrow terminal, so that numbers are not
    table.add_column("value", justify="right", no_wrap=True)
    interval = f"{percent(evaluation.level)} interval"
    table.add_column(interval, no_wrap=True, style="dim")
    for section, lines in sections(evaluation).items():
        table.add_section()
        table.add_row(f"[bold]{section}[/bold]")
        for line in lines:
            span = _interval(evaluation.intervals.get(line.key))
            table.add_row(_indented(line), f"{evaluation[line.key]:.4f}", span)
    return table


def show_brackets(brackets: Mapping[str, Bracket], *, title: str) -> Table:
    """Show both ends of each metric."""
    table = plain_table(escape(title))
    table.add_column("metric")
    for name in ("at least", "at most"):
        table.add_column(name, justify="right", no_wrap=True)
    for section, lines in sections(brackets).items():
        table.add_section()
        table.add_row(f"[bold]{section}[/bold]")
        for line in lines:
            one = brackets[line.key]
            low, high = (
                _outward(one.low, ROUND_FLOOR),
                _outward(one.high, ROUND_CEILING),
            )
            table.add_row(_indented(line), low, high)
    return table


def _outward(value: float, rounding: str) -> str:
    """Round an end of a bracket such that the exact value stays inside.

    Examples
    --------
    >>> _outward(2 / 3, ROUND_FLOOR), _outward(1 / 3, ROUND_CEILING)
    ('0.666666', '0.333334')
    >>> _outward(0.29, ROUND_FLOOR)
    '0.290000'
    """
    if not isfinite(value):
        return str(value)
    # The shortest text of a float: 0.29 is a little less than 0.29.
    exact = Decimal(repr(float(value)))
    return f"{exact.quantize(Decimal('0.000001'), rounding=rounding):f}"


def _sets_in_columns(
    evaluations: Mapping[str, Evaluation], title: str, *, rivals: bool
) -> Table:
    first = next(iter(evaluations.values()))
    table = plain_table(escape(title))
    table.add_column("metric", no_wrap=True)
    for name in evaluations:
        table.add_column(escape(name), justify="right", no_wrap=True)
    for section, lines in _sections(evaluations).items():
        table.add_section()
        table.add_row(f"[bold]{section}[/bold]")
        for line in lines:
            table.add_row(_indented(line), *_marked(evaluations, line, rivals=rivals))
            spans = [e.intervals.get(line.key) for e in evaluations.values()]
            if any(spans):  # at 0 and 1 some metrics have none
                cells = (f"[dim]{_half_width(span)}[/dim]" for span in spans)
                table.add_row(
                    f"   [dim]± half the width of the {percent(first.level)} "
                    "interval[/dim]",
                    *cells,
                )
    return table


def _sets_in_rows(
    evaluations: Mapping[str, Evaluation], *, rivals: bool
) -> Iterator[Table]:
    """Yield one table per section, or several if its metrics do not fit into one."""
    names = max(map(cell_len, evaluations))
    names = min(names, OUT.width // 3)  # longer ones are folded
    for section, lines in _sections(evaluations).items():
        columns = [_column(evaluations, line, rivals=rivals) for line in lines]
        room = max(1, OUT.width - names - _BETWEEN - _EDGES)
        for i, some in enumerate(_evenly(columns, room)):
            table = plain_table(f"{section}, continued" if i else section)
            table.add_column("", width=names, overflow="fold")
            for column in some:
                # The header is wrapped at spaces; numbers are never wrapped.
                table.add_column(column.header, justify="right", width=column.width)
            cells = zip(*(column.cells for column in some), strict=True)
            for name, row in zip(evaluations, cells, strict=True):
                table.add_row(escape(name), *row)
            yield table


@dataclass(frozen=True)
class _Column:
    header: str
    cells: Sequence[Text]

    @property
    def width(self) -> int:
        words = map(cell_len, self.header.split())
        return max(*words, *(cell.cell_len for cell in self.cells))


def _column(
    evaluations: Mapping[str, Evaluation], line: Metric, *, rivals: bool
) -> _Column:
    cells = _marked(evaluations, line, rivals=rivals)
    for cell, evaluation in zip(cells, evaluations.values(), strict=True):
        span = _half_width(evaluation.intervals.get(line.key))
        cell.append(f" {span}" if span else "", style="not bold dim default")
    return _Column(f"{line.label} {_ARROWS[line.better]}", cells)


def _evenly(columns: Sequence[_Column], room: int) -> list[Sequence[_Column]]:
    """Split columns into as few groups as fit, of about equal size."""
    n_runs = len(list(_fitting(columns, room)))
    cuts = (list(_fitting(columns, least)) for least in range(1, room + 1))
    return next(cut for cut in cuts if len(cut) == n_runs)


def _fitting(columns: Sequence[_Column], room: int) -> Iterator[Sequence[_Column]]:
    """Split columns into groups that fit; one that is too wide forms its own group."""
    run: list[_Column] = []
    for column in columns:
        if run and sum(c.width + _BETWEEN for c in [*run, column]) > room:
            yield run
            run = []
        run.append(column)
    yield run


def _indented(line: Metric) -> str:
    return f" {_ARROWS[line.better]} {escape(line.label)}"


def _sections(evaluations: Mapping[str, Evaluation]) -> dict[str, list[Metric]]:
    """Return the metrics that any of the sets has: some may be undefined in others."""
    return sections(key for evaluation in evaluations.values() for key in evaluation)


def _shown(evaluations: Mapping[str, Evaluation], key: str, digits: int) -> list[str]:
    """Return a metric of every set as text; a dash where it is undefined."""
    return [
        f"{evaluation[key]:.{digits}f}" if key in evaluation else _UNDEFINED
        for evaluation in evaluations.values()
    ]


def _best(shown: Sequence[str], line: Metric) -> str:
    """Return the best of these texts: values that look the same are all the best."""
    defined = [text for text in shown if text != _UNDEFINED]
    if not defined or line.better == "neither":
        return ""
    return (max if line.better == "higher" else min)(defined, key=float)


def _marked(
    evaluations: Mapping[str, Evaluation], line: Metric, *, rivals: bool
) -> list[Text]:
    shown = _shown(evaluations, line.key, 4)
    best = _best(shown, line) if rivals else ""
    return [Text(text, style="bold green" if text == best else "") for text in shown]


def _interval(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.low:.4f}–{interval.high:.4f}"


def _half_width(interval: Interval | None) -> str:
    if interval is None:
        return ""
    half = (interval.high - interval.low) / 2
    # Of many samples: ±0.000 would look exact.
    return f"±{half:.3f}" if half >= 0.0005 or half == 0 else f"±{half:.1g}"


def as_csv(evaluations: Mapping[str, Evaluation]) -> str:
    """Write one row per set and metric, with full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["set", "metric", "value", "low", "high", "method"])
    for name, evaluation in evaluations.items():
        for row in evaluation.rows():
            writer.writerow(
                [csv_cell(name), *("" if v is None else v for v in row.values())]
            )
    return text.getvalue()


def as_latex(evaluations: Mapping[str, Evaluation], *, rivals: bool = False) -> str:
    """Write a booktabs table, metrics by row and sets by column.

    More sets than metrics are rows, as in most papers. Of `rivals`, the best is bold;
    groups of unknown samples are no rivals.
    """
    names = [latex_text(name) for name in evaluations]
    blocks = [
        [
            (
                latex_text(f"{line.label} {_ARROWS[line.better]}".rstrip()),
                *_latex_cells(evaluations, line, rivals=rivals),
            )
            for line in shown
        ]
        for shown in _sections(evaluations).values()
    ]
    metrics = [row for block in blocks for row in block]
    if len(names) > len(metrics):
        header, *rows = zip(("", *names), *metrics, strict=True)
        blocks = [rows]
    else:
        header = ("Metric", *names)
    lines = [rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", r"\toprule"]
    lines.append(rf"{' & '.join(header)} \\")
    for block in blocks:
        lines += [r"\midrule", *(rf"{' & '.join(row)} \\" for row in block)]
    return visible("\n".join([*lines, r"\bottomrule", r"\end{tabular}", NEEDS, ""]))


def _latex_cells(
    evaluations: Mapping[str, Evaluation], line: Metric, *, rivals: bool
) -> Iterator[str]:
    shown = _shown(evaluations, line.key, 3)
    best = _best(shown, line) if rivals else ""
    for text, evaluation in zip(shown, evaluations.values(), strict=True):
        value = rf"\textbf{{{text}}}" if text == best else latex_text(text)
        span = evaluation.intervals.get(line.key)
        if span is not None:
            value += rf" {{\scriptsize [{span.low:.3f}, {span.high:.3f}]}}"
        yield value
