"""Tables of metrics for the terminal, CSV and LaTeX."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from openset.cli._lists import percent, plain_table
from openset.metrics import Evaluation, Interval
from openset.stats._formats import LATEX

OUT = Console()
ERRORS = Console(stderr=True)


@dataclass(frozen=True)
class Line:
    """How one entry of an evaluation is shown."""

    key: str
    label: str
    better: str  # "higher", "lower" or ""


SECTIONS: Mapping[str, Sequence[Line]] = {
    "Closed set": (
        Line("accuracy", "Accuracy", "higher"),
        Line("inner_score", "Inner score", "higher"),
    ),
    "Ranking": (
        Line("openauc", "OpenAUC", "higher"),
        Line("partial_openauc", "partial OpenAUC, FPR ≤ 0.1", "higher"),
        Line("auroc", "AUROC", "higher"),
        Line("aupr", "AUPR, known positive", "higher"),
        Line("aupr_unknown", "AUPR, unknown positive", "higher"),
        Line("fpr_at_tpr", "FPR95, known positive", "lower"),
        Line("fpr_at_tpr_unknown", "FPR95, unknown positive", "lower"),
        Line("error_at_tpr", "Detection error at 95 % TPR", "lower"),
        Line("ccr_at_fpr_0.1", "CCR at FPR 0.1", "higher"),
        Line("ccr_at_fpr_0.01", "CCR at FPR 0.01", "higher"),
        Line("ccr_at_fpr_0.001", "CCR at FPR 0.001", "higher"),
        Line("acc_times_auroc", "Accuracy · AUROC", "higher"),
        Line("acc_plus_auroc", "Accuracy + AUROC", "higher"),
    ),
    "At the threshold": (
        Line("osa", "Open-set accuracy (OSA)", "higher"),
        Line("ccr", "Correct classification (CCR)", "higher"),
        Line("urr", "Unknown rejection rate (URR)", "higher"),
        Line("halfpoint_score", "Halfpoint score", "higher"),
        Line("outer_score", "Outer score", "higher"),
        Line("overall_score", "Overall score", "higher"),
        Line("f_score", "Open-set F, macro", "higher"),
        Line("f_score_micro", "Open-set F, micro", "higher"),
        Line("youden", "Youden's index", "higher"),
        Line("youden_binary", "Youden, known/unknown", "higher"),
        Line("normalized_accuracy", "Normalized accuracy", "higher"),
        Line("normalized_accuracy_recall", "Normalized accuracy, recall", "higher"),
    ),
    "Best over all thresholds (oracle)": (
        Line("osa_best", "Open-set accuracy (OSA)", "higher"),
        Line("f_score_best", "Open-set F, macro", "higher"),
        Line("f_score_micro_best", "Open-set F, micro", "higher"),
        Line("youden_best", "Youden's index", "higher"),
        Line("normalized_accuracy_best", "Normalized accuracy", "higher"),
        Line("halfpoint_score_best", "Halfpoint score", "higher"),
        Line("overall_score_best", "Overall score", "higher"),
    ),
}

_ARROWS = {"higher": "↑", "lower": "↓", "": " "}
_BETWEEN, _EDGES = 2, 2  # spaces between the columns of a plain table, and around it


def show(evaluations: Mapping[str, Evaluation], *, title: str) -> RenderableType:
    """Lay out every metric with its interval; of several sets, the best stands out.

    Several sets are columns where the terminal is wide enough for them, else rows.
    """
    if len(evaluations) == 1:
        return _one_set(next(iter(evaluations.values())), title)
    columns = _sets_in_columns(evaluations, title)
    unbounded = OUT.options.update(max_width=10_000)
    if OUT.measure(columns, options=unbounded).maximum <= OUT.width:
        return columns
    level = next(iter(evaluations.values())).level
    legend = f"{title}; ± is half the {percent(level)} interval"
    return Group(Text(legend, style="italic"), *_sets_in_rows(evaluations))


def _one_set(evaluation: Evaluation, title: str) -> Table:
    table = plain_table(escape(title))
    table.add_column("metric", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    interval = f"{percent(evaluation.level)} interval"
    table.add_column(interval, no_wrap=True, style="dim")
    for section, lines in _sections(evaluation):
        table.add_section()
        table.add_row(f"[bold]{section}[/bold]")
        for line in lines:
            span = _interval(evaluation.intervals.get(line.key))
            table.add_row(_indented(line), f"{evaluation[line.key]:.4f}", span)
    return table


def _sets_in_columns(evaluations: Mapping[str, Evaluation], title: str) -> Table:
    first = next(iter(evaluations.values()))
    table = plain_table(escape(title))
    table.add_column("metric", no_wrap=True)
    for name in evaluations:
        table.add_column(escape(name), justify="right", no_wrap=True)
    for section, lines in _sections(first):
        table.add_section()
        table.add_row(f"[bold]{section}[/bold]")
        for line in lines:
            table.add_row(_indented(line), *_marked(evaluations, line))
            spans = [e.intervals.get(line.key) for e in evaluations.values()]
            if any(spans):  # at 0 and 1 some metrics have none
                cells = (f"[dim]{_half_width(span)}[/dim]" for span in spans)
                table.add_row(
                    f"   [dim]± half the {percent(first.level)} interval[/dim]", *cells
                )
    return table


def _sets_in_rows(evaluations: Mapping[str, Evaluation]) -> Iterator[Table]:
    """Yield a table per section, or more where its metrics need more room."""
    names = max(map(cell_len, evaluations))
    names = min(names, OUT.width // 3)  # longer ones are folded
    for section, lines in _sections(next(iter(evaluations.values()))):
        columns = [_column(evaluations, line) for line in lines]
        room = max(1, OUT.width - names - _BETWEEN - _EDGES)
        for i, some in enumerate(_evenly(columns, room)):
            table = plain_table(f"{section}, continued" if i else section)
            table.add_column("", width=names, overflow="fold")
            for column in some:
                # The header is broken at spaces; numbers have the room they need.
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


def _column(evaluations: Mapping[str, Evaluation], line: Line) -> _Column:
    cells = _marked(evaluations, line)
    for cell, evaluation in zip(cells, evaluations.values(), strict=True):
        span = _half_width(evaluation.intervals.get(line.key))
        cell.append(f" {span}" if span else "", style="not bold dim default")
    return _Column(f"{line.label} {_ARROWS[line.better]}", cells)


def _evenly(columns: Sequence[_Column], room: int) -> list[Sequence[_Column]]:
    """Cut into as few runs of columns as fit, none much longer than the others."""
    n_runs = len(list(_fitting(columns, room)))
    cuts = (list(_fitting(columns, least)) for least in range(1, room + 1))
    return next(cut for cut in cuts if len(cut) == n_runs)


def _fitting(columns: Sequence[_Column], room: int) -> Iterator[Sequence[_Column]]:
    """Cut into runs of columns that fit; one that is too wide stands alone."""
    run: list[_Column] = []
    for column in columns:
        if run and sum(c.width + _BETWEEN for c in [*run, column]) > room:
            yield run
            run = []
        run.append(column)
    yield run


def _sections(evaluation: Evaluation) -> Iterator[tuple[str, Sequence[Line]]]:
    for section, lines in SECTIONS.items():
        shown = [line for line in lines if line.key in evaluation]
        if shown:
            yield section, shown


def _indented(line: Line) -> str:
    return f" {_ARROWS[line.better]} {line.label}"


def _marked(evaluations: Mapping[str, Evaluation], line: Line) -> list[Text]:
    values = [evaluation[line.key] for evaluation in evaluations.values()]
    best = max(values) if line.better == "higher" else min(values)
    return [
        Text(f"{value:.4f}", style="bold green" if value == best else "")
        for value in values
    ]


def _interval(interval: Interval | None) -> str:
    return "" if interval is None else f"{interval.low:.4f}–{interval.high:.4f}"


def _half_width(interval: Interval | None) -> str:
    return "" if interval is None else f"±{(interval.high - interval.low) / 2:.3f}"


def as_csv(evaluations: Mapping[str, Evaluation]) -> str:
    """Write one row per set and metric, with full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["set", "metric", "value", "low", "high", "method"])
    for name, evaluation in evaluations.items():
        for row in evaluation.rows():
            writer.writerow([name, *("" if v is None else v for v in row.values())])
    return text.getvalue()


def as_latex(evaluations: Mapping[str, Evaluation]) -> str:
    """Write a booktabs table, metrics by row, sets by column."""
    first = next(iter(evaluations.values()))
    names = " & ".join(name.translate(LATEX) for name in evaluations)
    lines = [
        rf"\begin{{tabular}}{{l{'r' * len(evaluations)}}}",
        r"\toprule",
        rf"Metric & {names} \\",
    ]
    for section in SECTIONS.values():
        shown = [line for line in section if line.key in first]
        if shown:
            lines.append(r"\midrule")
        for line in shown:
            cells = " & ".join(
                _latex_cell(evaluation, line.key) for evaluation in evaluations.values()
            )
            lines.append(rf"{line.label.translate(LATEX)} & {cells} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _latex_cell(evaluation: Evaluation, key: str) -> str:
    value, interval = evaluation[key], evaluation.intervals.get(key)
    if interval is None:
        return f"{value:.3f}"
    return rf"{value:.3f} {{\scriptsize [{interval.low:.3f}, {interval.high:.3f}]}}"
