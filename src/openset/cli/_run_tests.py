"""Paired t-tests over the runs of a study, for the terminal, CSV and LaTeX."""

import csv as csv_module
import io
from collections.abc import Mapping, Sequence

import typer
from rich.markup import escape

from openset import stats
from openset._safe_text import csv_cell, visible
from openset.cli._console import OUT
from openset.cli._lists import plain_table
from openset.stats import PairedTest, latex_text

CORRECTED = {
    "holm": "with Holm's correction",
    "bonferroni": "with Bonferroni's correction",
    "none": "not corrected",
}


def show_run_tests(
    by_metric: Sequence[Sequence[PairedTest]],
    *,
    correction: str,
    level: float,
    csv: bool = False,
    latex: bool = False,
    of_networks: bool = False,
    better: Mapping[str, str] | None = None,
) -> None:
    """Print the tests as a table per metric, as CSV or as LaTeX.

    With `of_networks` the runs are seeds, each a network of its own. `better` are the
    directions of metrics that are not in the table of metrics.
    """
    if csv:
        typer.echo(_as_csv([test for tests in by_metric for test in tests]), nl=False)
    elif latex:
        typer.echo("\n".join(map(_as_latex, by_metric)), nl=False)
    else:
        for tests in by_metric:
            lower = stats.direction(tests[0].metric, better) == "lower"
            _as_table(tests, correction, level, lower=lower)
        about = (
            "If the seeds share training or test samples, the p-values are too "
            "small, and results on other data may differ more."
            if of_networks
            else "Runs that share training samples make p-values too small."
        )
        OUT.print(about, style="dim")


def _as_csv(tests: Sequence[PairedTest]) -> str:
    text = io.StringIO()
    writer = csv_module.writer(text, lineterminator="\n")
    writer.writerow(tests[0].record())
    for test in tests:
        cells = test.record().values()
        writer.writerow("" if v is None else csv_cell(v) for v in cells)
    return text.getvalue()


def _as_latex(tests: Sequence[PairedTest]) -> str:
    lines = [
        r"\begin{tabular}{lllrrrrr}",
        r"\toprule",
        rf"\multicolumn{{8}}{{l}}{{{latex_text(tests[0].metric)}}} \\",
        r"Protocol & $a$ & $b$ & mean $a$ & mean $b$ & $a - b$ & $n$ & $p$ \\",
        r"\midrule",
    ]
    for test in tests:
        names = " & ".join(map(latex_text, (test.protocol, test.a, test.b)))
        numbers = f"{test.mean_a:.3f} & {test.mean_b:.3f} & {test.difference:+.3f}"
        lines.append(rf"{names} & {numbers} & {test.n} & {_p(test)} \\")
    text = "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])
    return visible(text)


def _as_table(
    tests: Sequence[PairedTest], correction: str, level: float, *, lower: bool
) -> None:
    metric = tests[0].metric
    table = plain_table(
        f"Paired t-tests of {escape(metric)} over the same runs (two-sided; p-values "
        f"of {len(tests)} test{'s' * (len(tests) != 1)} {CORRECTED[correction]})"
    )
    has_protocols = any(test.protocol for test in tests)
    texts = [*(["protocol"] if has_protocols else []), "a", "b"]
    numbers = ["mean a", "mean b", "a - b", "n", "t", "p"]
    for head in (*texts, *numbers, "better"):
        if head in numbers:
            table.add_column(head, justify="right", no_wrap=True)
        else:
            table.add_column(head, overflow="fold")
    for test in tests:
        better = test.a if (test.difference > 0) != lower else test.b
        is_sure = test.p_corrected is not None and test.p_corrected < 1 - level
        table.add_row(
            *([escape(test.protocol)] if has_protocols else []),
            escape(test.a),
            escape(test.b),
            f"{test.mean_a:.4f}",
            f"{test.mean_b:.4f}",
            f"{test.difference:+.4f}",
            str(test.n),
            "–" if test.statistic is None else f"{test.statistic:.2f}",
            _p(test),
            f"[bold green]{escape(better)}[/bold green]" if is_sure else "unclear",
        )
    OUT.print(table)
    for over in dict.fromkeys(test.over for test in tests):
        OUT.print(f"n: {over}", style="dim", highlight=False)


def _p(test: PairedTest) -> str:
    return "–" if test.p_corrected is None else f"{test.p_corrected:.2g}"
