"""`openset compare`."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from openset import _check, _io, metrics, runs, score_files, stats
from openset._types import ArtefactError, UndefinedMetricError
from openset.cli._console import (
    ERRORS,
    OUT,
    Csv,
    Json,
    Latex,
    need_one_form,
    print_json,
)
from openset.cli._lists import percent, plain_table
from openset.cli._options import Bootstrap, Level, naming
from openset.cli._run_tests import CORRECTED, show_run_tests
from openset.cli._score_files import (
    Columns,
    HigherIsUnknown,
    UnknownLabel,
    reading,
)
from openset.cli._tables import as_csv, as_latex, show
from openset.metrics import Metric
from openset.results import Results
from openset.scores import Scores
from openset.stats import Leaderboard

EPILOG = """[bold]Examples[/bold]

openset compare scores/*.npz

openset compare scores-msp.npz scores-postmax.npz --metric auroc --latex

openset compare 'runs/{method}_seed{seed}.csv' --metric openauc --metric auroc

openset compare runs/study --metric oosa --against postmax \\
    --correction bonferroni"""

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "columns": "--columns",
    "unknown_label": "--unknown-label",
    "level": "--level",
    "bootstrap": "--bootstrap",
    "metric": "--metric",
    "metrics": "--metric",
    "correction": "--correction",
    "against": "--against",
    "test_share": "--test-share",
}
_DEFAULT = "openauc"


@naming("openset compare", _OPTIONS)
def command(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="SCORES",
            help="Scores of the same samples: two or more files. Or a pattern in "
            "quotes, 'runs/{method}_seed{seed}.csv': the fields seed, run, fold and "
            "split number repeats, protocol names the problem, and all other fields "
            "name the method. Or a run folder of openset bench, or its results.csv.",
        ),
    ],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="Metric to show and test; may be repeated. Default: openauc is "
            "tested and all metrics are shown (for repeats: openauc, auroc, accuracy "
            "and fpr_at_tpr). Files of scores can only be compared by metrics that "
            "need no threshold. A metric of your own: package.module:Name.",
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="Test only this method against every other one (default: all pairs).",
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
            help="For repeats and run folders: one test over the runs of all "
            "protocols (default: one test per protocol).",
        ),
    ] = False,
    test_share: Annotated[
        float | None,
        typer.Option(
            help="For repeats and run folders whose runs share training samples: "
            "number of test samples divided by number of training samples, such as "
            "0.25. The t-tests then use the corrected variance of Nadeau and Bengio "
            "(default: no correction)."
        ),
    ] = None,
    level: Level = 0.95,
    bootstrap: Bootstrap = 0,
    columns: Columns = "",
    unknown_label: UnknownLabel = None,
    higher_is_unknown: HigherIsUnknown = False,
    as_json: Json = False,
    csv: Csv = False,
    latex: Latex = False,
) -> None:
    """Compare detectors: all metrics with intervals, and pairwise tests.

    For repeats (a pattern with {seed}) it shows means with standard deviations, and
    paired t-tests over the repeats; for a run folder, paired t-tests of its methods
    over the same runs (test splits, draws and seeds).
    """
    _check.one_of("openset compare", "--correction", correction, stats.CORRECTIONS)
    need_one_form("openset compare", as_json=as_json, csv=csv, latex=latex)
    options = reading(
        caller="openset compare",
        columns=columns,
        unknown_label=unknown_label,
        higher_is_unknown=higher_is_unknown,
    )
    for path in paths:  # before anything else is said about them
        if not path.exists() and not score_files.is_pattern(path):
            msg = f"openset compare: no such file or folder: {path}"
            raise FileNotFoundError(msg)
    form = _Form(json=as_json, csv=csv, latex=latex)
    metric = list(dict.fromkeys(metric or ()))  # one may be given twice
    tested = metric or [_DEFAULT]
    of_runs: dict[str, Any] = {"pool": pool, "test_share": test_share}
    run_tests = partial(
        _run_tests, against=against, correction=correction, of_runs=of_runs
    )
    if len(paths) == 1 and (paths[0].is_dir() or _is_results(paths[0])):
        tested = [_key(one) for one in tested]
        results = _results(paths[0])
        tests = run_tests(results, tested)
        _show_runs(
            tests, form, correction=correction, level=level, better=results.better
        )
        return
    files = score_files.find(paths) if any(map(score_files.is_pattern, paths)) else []
    if any(file.has_repeats for file in files):
        results = stats.read_results(paths, metric or stats.METRICS, **options)
        tested = list(dict.fromkeys(row.metric for row in results))[: len(tested)]
        tests = run_tests(results, tested)
        boards = _boards(results, level, correction)
        seeds = all("{seed}" in str(path) for path in paths)
        _show_repeats(
            boards, tests, form, correction=correction, level=level, of_networks=seeds
        )
        return
    _refuse(of_runs)
    rows = _testable(tested)
    names = [file.method for file in files] or _names(paths)
    found = _load([file.path for file in files] or paths, names, options)
    if against is not None:
        _check.one_of("openset compare", "--against", against, list(found))
    evaluations = {
        name: metrics.evaluate(
            scores, None, level, metrics=rows if metric else None, bootstrap=bootstrap
        )
        for name, scores in found.items()
    }
    test = partial(
        _pairwise, found, _pairs(found, against), level=level, correction=correction
    )
    _show_scores(evaluations, rows, test, form, level=level, correction=correction)


@dataclass(frozen=True, slots=True)
class _Form:
    """In which form results are printed; none: tables for the terminal."""

    json: bool
    csv: bool
    latex: bool


def _run_tests(
    results: Results,
    tested: Sequence[str],
    *,
    against: str | None,
    correction: str,
    of_runs: Mapping[str, Any],
) -> list[list[stats.RunComparison]]:
    return [
        stats.compare_runs(
            results,
            one,
            against=against,
            correction=correction,  # type: ignore[arg-type]  # checked by the command
            **of_runs,
        )
        for one in tested
    ]


def _refuse(of_runs: Mapping[str, object]) -> None:
    for name, value in of_runs.items():
        if value:
            option = f"--{name.replace('_', '-')}"
            msg = (
                f"openset compare: {option} can be given with a run folder or a "
                "pattern with repeats only"
            )
            raise typer.BadParameter(msg)


def _key(metric: str) -> str:
    """Return the key of a metric in results; one of your own is imported."""
    if ":" not in metric:
        return metric
    return metrics.get(metric, caller="openset compare", argument="--metric").key


def _testable(names: Sequence[str]) -> list[Metric]:
    """Return metrics by name, if they can be tested without a threshold."""
    rows = [
        metrics.get(one, caller="openset compare", argument="--metric") for one in names
    ]
    for row in rows:
        if row.kind not in {"closed", "ranking", "oracle"}:
            keys = [m.key for m in metrics.table() if m.kind in {"closed", "ranking"}]
            _check.one_of("openset compare", "--metric", row.key, keys)
    return rows


def _show_runs(
    tests: Sequence[Sequence[stats.RunComparison]],
    form: _Form,
    *,
    correction: str,
    level: float,
    better: Mapping[str, str],
) -> None:
    if form.json:
        print_json({"tests": _records(tests)})
        return
    show_run_tests(
        tests,
        correction=correction,
        level=level,
        csv=form.csv,
        latex=form.latex,
        better=better,
    )


def _show_repeats(
    boards: Sequence[Leaderboard],
    tests: Sequence[Sequence[stats.RunComparison]],
    form: _Form,
    *,
    correction: str,
    level: float,
    of_networks: bool,
) -> None:
    if form.json:
        tables = [{"title": one.title, "rows": one.records()} for one in boards]
        print_json({"leaderboards": tables, "tests": _records(tests)})
        return
    _show_boards(boards, csv=form.csv, latex=form.latex)
    if not (form.csv or form.latex):
        show_run_tests(
            tests, correction=correction, level=level, of_networks=of_networks
        )


def _is_results(path: Path) -> bool:
    return path.suffix == ".csv" and not score_files.is_pattern(path)


def _boards(results: Results, level: float, correction: str) -> list[Leaderboard]:
    """Return one table of all metrics; of several protocols, one per metric."""
    settings: dict[str, Any] = {"level": level, "correction": correction}
    keys = list(dict.fromkeys(row.metric for row in results))
    if len({row.protocol for row in results}) == 1:
        return [stats.leaderboard(results, keys, columns="metric", **settings)]
    return [stats.leaderboard(results, key, **settings) for key in keys]


def _show_boards(boards: Sequence[Leaderboard], *, csv: bool, latex: bool) -> None:
    if csv:
        first, *others = (board.to_csv() for board in boards)
        rows = "".join(other.partition("\n")[2] for other in others)
        typer.echo(first + rows, nl=False)
    elif latex:
        typer.echo("\n".join(board.to_latex() for board in boards), nl=False)
    else:
        OUT.print(*boards, sep="\n")


def _results(path: Path) -> Results:
    if path.is_dir() and not (path / "cells").is_dir() and list(path.glob("*.npz")):
        msg = _check.must(
            "files of scores, or a run folder of openset bench",
            caller="openset compare",
            name="SCORES",
            got=f"the folder {path}",
            remedy=f"Give its files: openset compare {path}/*.npz",
        )
        raise ValueError(msg)
    if path.is_dir():
        return runs.results(path)
    try:
        return Results(Results.load(path), better=runs.directions(path.parent))
    except ArtefactError as error:
        msg = f"{error}. Scores: give two files or more, or one to openset evaluate"
        raise ArtefactError(msg) from error


def _load(
    paths: Sequence[Path], names: Sequence[str], options: Mapping[str, Any]
) -> dict[str, Scores]:
    """Read scores by name, and check that they are of the same samples."""
    if len(set(names)) < max(2, len(names)):
        msg = _check.must(
            "two or more different files",
            caller="openset compare",
            name="SCORES",
            got=", ".join(map(str, paths)),
            remedy="Detectors are named after their files and folders, without the "
            "ending",
        )
        raise ValueError(msg)
    found = [Scores.load(path, **options) for path in paths]
    with _io.naming(paths[0]):
        _check.both_sides("openset compare", found[0].n_known, found[0].n_unknown)
    for path, scores in zip(paths, found, strict=True):
        if not np.array_equal(scores.labels, found[0].labels):
            raise ValueError(_not_the_same(paths[0], found[0], path, scores))
        if _is_reordered(found[0], scores):
            ERRORS.print(
                f"{path} has the same numbers of labels and predicted classes as "
                f"{paths[0]}, but in other rows: are its samples in another order? The "
                "tests compare row by row.",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
    return dict(zip(names, found, strict=True))


def _is_reordered(scores: Scores, others: Scores) -> bool:
    """Whether two files seem to be of one network, with its samples shuffled.

    Another network makes other errors; the same one, in another order, equally many of
    each kind.
    """
    if np.array_equal(scores.predicted, others.predicted):
        return False
    pairs = (np.stack([one.labels, one.predicted]) for one in (scores, others))
    first, second = (both[:, np.lexsort(both)] for both in pairs)
    return np.array_equal(first, second)


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


def _pairs(names: Iterable[str], against: str | None) -> list[tuple[str, str]]:
    """Return the pairs to test; one method against all others comes first in each."""
    pairs = [(a, b) for a, b in combinations(names, 2) if against in {None, a, b}]
    return [(b, a) if b == against else (a, b) for a, b in pairs]


def _pairwise(
    found: dict[str, Scores],
    pairs: Sequence[tuple[str, str]],
    metric: Metric,
    *,
    level: float,
    correction: str,
) -> list[dict[str, Any]]:
    """Return one record per pair, the smallest p-value first."""
    tests = [
        stats.compare(found[a], found[b], metric.key, level=level) for a, b in pairs
    ]
    p_values = [test.p_value for test in tests]
    corrected = stats.adjust(p_values, correction)  # type: ignore[arg-type]
    records = [
        {
            "metric": metric.key,
            "a": a,
            "b": b,
            "difference": test.difference,
            "low": test.interval.low,
            "high": test.interval.high,
            "p_value": test.p_value,
            "p_corrected": float(p),
        }
        for (a, b), test, p in zip(pairs, tests, corrected, strict=True)
    ]
    return sorted(records, key=lambda record: record["p_corrected"])


def _show_scores(
    evaluations: Mapping[str, metrics.Evaluation],
    rows: Sequence[Metric],
    test: Callable[[Metric], list[dict[str, Any]]],
    form: _Form,
    *,
    level: float,
    correction: str,
) -> None:
    """Print the evaluations, and the tests of each metric."""
    if form.csv:
        typer.echo(as_csv(evaluations), nl=False)
        return
    if form.latex:
        typer.echo(as_latex(evaluations, rivals=True), nl=False)
        return
    # Compute all before printing, so that an error is printed alone.
    tests: list[dict[str, Any]] = []
    tables: list[Table | Text] = []
    for row in rows:
        try:
            found = test(row)
        except UndefinedMetricError as error:
            tables.append(Text(f"No pairwise tests. {error}", style="dim"))
        else:
            tests += found
            tables.append(_table_of(found, row, level, correction))
    if form.json:
        documents = {n: json.loads(e.to_json()) for n, e in evaluations.items()}
        print_json({"evaluations": documents, "tests": tests})
        return
    first = next(iter(evaluations.values()))
    title = f"{first.n_known} known and {first.n_unknown} unknown samples"
    OUT.print(show(evaluations, title=title, rivals=True), *tables, sep="\n")


def _records(tests: Sequence[Sequence[stats.RunComparison]]) -> list[dict[str, Any]]:
    return [test.record() for of_metric in tests for test in of_metric]


def _table_of(
    tests: Sequence[Mapping[str, Any]], metric: Metric, level: float, correction: str
) -> Table:
    table = plain_table(
        f"Pairwise differences in {metric.key} (same samples; p-values "
        f"{CORRECTED[correction]})"
    )
    for column in ("a", "b", "a - b", f"{percent(level)} interval", "p", "better"):
        if column in {"a", "b", "better"}:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    for test in tests:
        a, b, p = test["a"], test["b"], test["p_corrected"]
        better = a if (test["difference"] > 0) == (metric.better == "higher") else b
        verdict = "unclear"
        if metric.better == "neither":
            verdict = "–"
        elif p < 1 - level:
            verdict = f"[bold green]{escape(better)}[/bold green]"
        table.add_row(
            escape(a),
            escape(b),
            f"{test['difference']:+.4f}",
            f"{test['low']:+.4f} … {test['high']:+.4f}",
            f"{p:.3g}",
            verdict,
        )
    return table
