"""Tables of metrics for the terminal, CSV and LaTeX."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

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


def show(evaluations: Mapping[str, Evaluation], *, title: str) -> Table:
    """Lay out one column per evaluation; with several, the best stands out."""
    several = len(evaluations) > 1
    table = Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1 if several else 2, 0, 0),
    )
    table.add_column("metric", no_wrap=True)
    for name in evaluations:
        table.add_column(name if several else "value", justify="right", no_wrap=True)
    first = next(iter(evaluations.values()))
    if not several:
        table.add_column(f"{first.level:.0%} interval", no_wrap=True, style="dim")
    for section, lines in SECTIONS.items():
        shown = [line for line in lines if line.key in first]
        if not shown:
            continue
        table.add_section()
        table.add_row(f"[bold]{section}[/bold]")
        for line in shown:
            values = [evaluation[line.key] for evaluation in evaluations.values()]
            label = f" {_ARROWS[line.better]} {line.label}"
            if not several:
                span = _interval(first.intervals.get(line.key))
                table.add_row(label, f"{values[0]:.4f}", span)
                continue
            table.add_row(label, *_marked(values, line.better))
            if line.key in first.intervals:
                spans = [e.intervals.get(line.key) for e in evaluations.values()]
                cells = (f"[dim]{_half_width(span)}[/dim]" for span in spans)
                table.add_row(
                    f"   [dim]± half the {first.level:.0%} interval[/dim]", *cells
                )
    return table


def _marked(values: Sequence[float], better: str) -> list[str]:
    cells = [f"{value:.4f}" for value in values]
    best = max(values) if better == "higher" else min(values)
    return [
        f"[bold green]{cell}[/bold green]" if value == best else cell
        for cell, value in zip(cells, values, strict=True)
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
