"""`openset compare`."""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from openset import _check, _io, metrics, runs, stats
from openset._types import UndefinedMetricError
from openset.cli._lists import percent, plain_table
from openset.cli._options import naming
from openset.cli._run_tests import CORRECTED, show_run_tests
from openset.cli._tables import OUT, as_csv, as_latex, show
from openset.metrics import Metric
from openset.results import Results
from openset.scores import Scores

EPILOG = """[bold]Examples[/bold]

openset compare scores/*.npz

openset compare scores-msp.npz scores-postmax.npz --metric auroc --latex

openset compare runs/study --metric oosa --against postmax \\
    --correction bonferroni"""

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "level": "--level",
    "bootstrap": "--bootstrap",
    "metric": "--metric",
    "correction": "--correction",
    "against": "--against",
    "test_share": "--test-share",
}


@naming("openset compare", _OPTIONS)
def command(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="SCORES",
            help="Scores of the same samples: two or more files. Or a run folder of "
            "openset bench, or its results.csv.",
        ),
    ],
    metric: Annotated[
        str,
        typer.Option(
            help="Metric for the pairwise tests; of scores, one that needs no "
            "threshold. A metric of your own: package.module:Name."
        ),
    ] = "openauc",
    against: Annotated[
        str | None,
        typer.Option(
            help="Compare this method with every other; by default all pairs.",
            metavar="NAME",
        ),
    ] = None,
    correction: Annotated[
        str,
        typer.Option(
            help="Correction for the number of tests: holm, bonferroni or none."
        ),
    ] = "holm",
    pool: Annotated[
        bool,
        typer.Option(
            "--pool",
            help="Run folder: one test over the runs of all protocols, not one per "
            "protocol.",
        ),
    ] = False,
    test_share: Annotated[
        float | None,
        typer.Option(
            help="Run folder: test samples per training sample, if the runs share "
            "training samples; corrects the variance (Nadeau and Bengio)."
        ),
    ] = None,
    level: Annotated[
        float, typer.Option(help="Confidence level of the intervals.")
    ] = 0.95,
    bootstrap: Annotated[
        int,
        typer.Option(
            help="Number of bootstrap resamples, for metrics whose interval has "
            "no formula; 0: no such intervals."
        ),
    ] = 0,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    latex: Annotated[
        bool, typer.Option("--latex", help="Print a LaTeX table.")
    ] = False,
) -> None:
    """Compare detectors: all metrics with intervals, and pairwise tests.

    Of a run folder: paired t-tests of its methods over the same runs (test splits,
    draws and seeds).
    """
    _check.one_of("openset compare", "--correction", correction, stats.CORRECTIONS)
    if csv and latex:
        msg = "openset compare: at most one of --csv and --latex can be given"
        raise typer.BadParameter(msg)
    of_runs = {"pool": pool, "test_share": test_share}
    if len(paths) == 1 and (paths[0].is_dir() or paths[0].suffix == ".csv"):
        tests = stats.compare_runs(
            _results(paths[0]),
            metric,
            against=against,
            correction=correction,  # type: ignore[arg-type]  # checked above
            **of_runs,  # type: ignore[arg-type]
        )
        show_run_tests(tests, correction=correction, level=level, csv=csv, latex=latex)
        return
    for name, value in of_runs.items():
        if value:
            option = f"--{name.replace('_', '-')}"
            msg = f"openset compare: {option} can be given with a run folder only"
            raise typer.BadParameter(msg)
    row = metrics.get(metric, caller="openset compare", argument="--metric")
    if row.kind not in {"closed", "ranking", "oracle"}:
        options = [m.key for m in metrics.table() if m.kind in {"closed", "ranking"}]
        _check.one_of("openset compare", "--metric", metric, options)
    found = _load(paths)
    if against is not None:
        _check.one_of("openset compare", "--against", against, list(found))
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
    # Compute both before printing, so that an error is printed alone.
    table = show(evaluations, title=title)
    pairs = [(a, b) for a, b in combinations(found, 2) if against in {None, a, b}]
    pairs = [(b, a) if b == against else (a, b) for a, b in pairs]
    OUT.print(table, _tests(found, pairs, row, level, correction), sep="\n")


def _results(path: Path) -> Results:
    return runs.results(path) if path.is_dir() else Results.load(path)


def _load(paths: Sequence[Path]) -> dict[str, Scores]:
    """Read scores by name, and check that they are of the same samples."""
    names = _names(paths)
    if len(set(names)) < max(2, len(names)):
        msg = _check.must(
            "two or more different files",
            caller="openset compare",
            name="SCORES",
            got=", ".join(map(str, paths)),
            remedy="Files are distinguished by the names of files and folders, "
            "without ending",
        )
        raise ValueError(msg)
    found = [Scores.load(path) for path in paths]
    with _io.naming(paths[0]):
        _check.both_sides("openset compare", found[0].n_known, found[0].n_unknown)
    for path, scores in zip(paths, found, strict=True):
        if not np.array_equal(scores.labels, found[0].labels):
            raise ValueError(_not_the_same(paths[0], found[0], path, scores))
    return dict(zip(names, found, strict=True))


def _not_the_same(path: Path, scores: Scores, other: Path, others: Scores) -> str:
    got = f"{len(scores)} in {path} and {len(others)} in {other}"
    if len(scores) == len(others):
        n_different = int(np.count_nonzero(scores.labels != others.labels))
        got = f"different labels in {n_different} of {len(scores)} rows of {other}"
    return _check.must(
        f"of the same samples in the same order as {path}",
        caller="openset compare",
        name="SCORES",
        got=got,
        remedy="Score the same outputs with every detector: openset score",
    )


def _names(paths: Sequence[Path]) -> list[str]:
    """Return a short name per file: its own, or that of its folders if not unique.

    Examples
    --------
    >>> _names([Path("a/scores-msp.npz"), Path("a/scores-knn.npz")])
    ['msp', 'knn']
    >>> _names([Path("a/openauc/own.npz"), Path("a/ceplus/own.npz")])
    ['openauc', 'ceplus']
    """
    parts = [(*path.parts[:-1], path.stem.removeprefix("scores-")) for path in paths]
    if len({one[-1] for one in parts}) == len(parts):
        return [one[-1] for one in parts]
    for end in (-1, 0):  # drop what all have in common
        while all(len(one) > 1 for one in parts) and len({o[end] for o in parts}) == 1:
            parts = [one[1:] if end == 0 else one[:-1] for one in parts]
    return ["/".join(one) for one in parts]


def _tests(
    found: dict[str, Scores],
    pairs: Sequence[tuple[str, str]],
    metric: Metric,
    level: float,
    correction: str,
) -> Table | Text:
    try:
        return _pairwise(found, pairs, metric, level, correction)
    except UndefinedMetricError as error:
        return Text(f"No pairwise tests. {error}", style="dim")


def _pairwise(
    found: dict[str, Scores],
    pairs: Sequence[tuple[str, str]],
    metric: Metric,
    level: float,
    correction: str,
) -> Table:
    tests = [
        stats.compare(found[a], found[b], metric.key, level=level) for a, b in pairs
    ]
    p_values = [test.p_value for test in tests]
    corrected = stats.adjust(p_values, correction)  # type: ignore[arg-type]
    table = plain_table(
        f"Pairwise differences in {metric.key} (same samples; p-values "
        f"{CORRECTED[correction]})"
    )
    for column in ("a", "b", "a - b", f"{percent(level)} interval", "p", "better"):
        if column in {"a", "b", "better"}:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    for (a, b), test, p in sorted(
        zip(pairs, tests, corrected, strict=True), key=lambda row: row[2]
    ):
        better = a if test.difference > 0 else b
        if metric.better == "lower":
            better = b if better == a else a
        is_sure = p < 1 - level
        table.add_row(
            escape(a),
            escape(b),
            f"{test.difference:+.4f}",
            f"{test.interval.low:+.4f} … {test.interval.high:+.4f}",
            f"{p:.3g}",
            f"[bold green]{escape(better)}[/bold green]" if is_sure else "unclear",
        )
    return table
