"""`openset compare`."""

from itertools import combinations
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from openset import _check, metrics, stats
from openset.cli._tables import OUT, as_csv, as_latex, show
from openset.scores import Scores

EPILOG = """[bold]Examples[/bold]

openset compare scores/*.npz

openset compare scores-msp.npz scores-postmax.npz --metric auroc --latex"""


def command(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="SCORES...", help="Scores of the same samples."),
    ],
    metric: Annotated[
        str, typer.Option(help="Ranking metric for the pairwise tests.")
    ] = "openauc",
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    bootstrap: Annotated[
        int, typer.Option(help="Resamples for the intervals that have no formula.")
    ] = 0,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    latex: Annotated[
        bool, typer.Option("--latex", help="Print a LaTeX table.")
    ] = False,
) -> None:
    """Compare detectors: every metric, intervals, pairwise tests, best in bold."""
    options = [n for n, m in metrics.REGISTRY.items() if m.kind == "ranking"]
    _check.one_of("openset compare", "--metric", metric, options)
    found = {_name(path): Scores.load(path) for path in paths}
    if len(found) < 2 or len(found) < len(paths):
        msg = _check.must(
            "two or more files with different names",
            caller="openset compare",
            name="SCORES",
            got=", ".join(map(str, paths)),
        )
        raise ValueError(msg)
    evaluations = {
        name: metrics.evaluate(scores, None, level, bootstrap=bootstrap)
        for name, scores in found.items()
    }
    if csv:
        typer.echo(as_csv(evaluations), nl=False)
        return
    if latex:
        typer.echo(as_latex(evaluations), nl=False)
        return
    first = next(iter(evaluations.values()))
    title = f"{first.n_known} known and {first.n_unknown} unknown samples"
    OUT.print(show(evaluations, title=title))
    OUT.print(_pairwise(found, metric, level))


def _name(path: Path) -> str:
    return path.stem.removeprefix("scores-")


def _pairwise(found: dict[str, Scores], metric: str, level: float) -> Table:
    pairs = list(combinations(found, 2))
    tests = [stats.compare(found[a], found[b], metric, level=level) for a, b in pairs]
    corrected = stats.adjust([test.p_value for test in tests], "holm")
    table = Table(
        title=f"Pairwise differences in {metric} (same samples; p after Holm)",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for column in ("a", "b", "a - b", f"{level:.0%} interval", "p", ""):
        table.add_column(
            column, justify="left" if column in {"a", "b", ""} else "right"
        )
    for (a, b), test, p in sorted(
        zip(pairs, tests, corrected, strict=True), key=lambda row: row[2]
    ):
        is_sure = p < 1 - level
        better = a if test.difference > 0 else b
        if metrics.get(metric).better == "lower":
            better = b if better == a else a
        table.add_row(
            a,
            b,
            f"{test.difference:+.4f}",
            f"{test.interval.low:+.4f} … {test.interval.high:+.4f}",
            f"{p:.3g}",
            f"[bold green]{better}[/bold green] is better" if is_sure else "no verdict",
        )
    return table
