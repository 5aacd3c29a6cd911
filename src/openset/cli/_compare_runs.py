"""`openset compare` over runs: those of a study, or repeats found by a pattern."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer

from openset import _check, runs, stats
from openset._types import ArtefactError
from openset.cli._console import ERRORS, OUT, Form, print_json
from openset.cli._run_tests import show_run_tests
from openset.metrics import get as get_metric
from openset.results import Results
from openset.stats import Leaderboard, score_files


def is_results(path: Path) -> bool:
    """Whether this is a table of results, rather than a pattern of files of scores."""
    return path.suffix == ".csv" and not score_files.is_pattern(path)


def compare_study(
    path: Path,
    metrics: Sequence[str],
    form: Form,
    *,
    level: float,
    correction: str,
    **options: Any,
) -> None:
    """Test the methods of a run folder, or of its table of results."""
    results = _results(path)
    tests = _tested(results, map(_key, metrics), correction=correction, **options)
    if form.json:
        print_json({"tests": _records(tests)})
        return
    show_run_tests(
        tests,
        correction=correction,
        level=level,
        csv=form.csv,
        latex=form.latex,
        better=results.better,
    )


def compare_repeats(
    results: Results,
    metrics: Sequence[str],
    form: Form,
    *,
    level: float,
    correction: str,
    of_networks: bool,
    **options: Any,
) -> None:
    """Show the means of methods over their repeats, and test the methods."""
    tests = _tested(results, metrics, correction=correction, **options)
    boards = _boards(results, level, correction)
    for name in _repeated(results):
        ERRORS.print(
            f"note: all repeats of {name} give the same results: are their files "
            "copies of one another?",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    if form.json:
        tables = [{"title": one.title, "rows": one.records()} for one in boards]
        print_json({"leaderboards": tables, "tests": _records(tests)})
        return
    _show_boards(boards, csv=form.csv, latex=form.latex)
    if not (form.csv or form.latex):
        show_run_tests(
            tests, correction=correction, level=level, of_networks=of_networks
        )


def _repeated(results: Results) -> list[str]:
    """Return the methods whose repeats agree in every metric, to the last digit."""
    values: dict[str, dict[tuple[str, str], list[float]]] = {}
    for row in results:
        name = " · ".join(filter(None, (row.model, row.method, row.detector)))
        of_method = values.setdefault(name, {})
        of_method.setdefault((row.protocol, row.metric), []).append(row.value)
    return [
        name
        for name, of_method in values.items()
        if all(len(v) > 1 and len(set(v)) == 1 for v in of_method.values())
    ]


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


def _key(metric: str) -> str:
    """Return the key of a metric in results; one of your own is imported."""
    if ":" not in metric:
        return metric
    return get_metric(metric, caller="openset compare", argument="--metric").key


def _tested(
    results: Results, metrics: Iterable[str], **options: Any
) -> list[list[stats.PairedTest]]:
    return [stats.paired_t(results, one, **options) for one in metrics]


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


def _records(tests: Sequence[Sequence[stats.PairedTest]]) -> list[dict[str, Any]]:
    return [test.record() for of_metric in tests for test in of_metric]
