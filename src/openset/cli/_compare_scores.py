"""`openset compare` on one test set: evaluations, and tests of each pair."""

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from openset import _check, _io, metrics, stats
from openset._types import PairingWarning, UndefinedMetricError
from openset.cli._console import ERRORS, OUT, Form, print_json
from openset.cli._lists import percent, plain_table
from openset.cli._run_tests import CORRECTED
from openset.cli._tables import as_csv, as_latex, show
from openset.metrics import Metric
from openset.scores import Scores, in_order_of, seems_reordered


def testable(names: Sequence[str]) -> list[Metric]:
    """Return metrics by name, if they can be tested without a threshold."""
    rows = [
        metrics.get(one, caller="openset compare", argument="--metric") for one in names
    ]
    for row in rows:
        if row.kind not in {"closed", "ranking", "oracle"}:
            keys = [m.key for m in metrics.table() if m.kind in {"closed", "ranking"}]
            _check.one_of("openset compare", "--metric", row.key, keys)
    return rows


def load(
    paths: Sequence[Path], names: Sequence[str], options: Mapping[str, Any]
) -> dict[str, Scores]:
    """Read scores by name, of the same samples, in the order of the first file."""
    if len(paths) < 2:
        msg = _check.must(
            "two or more different files",
            caller="openset compare",
            name="SCORES",
            got=", ".join(map(str, paths)),
        )
        raise ValueError(msg)
    found = [Scores.load(path, **options) for path in paths]
    with _io.naming(paths[0]):
        _check.both_sides("openset compare", found[0].n_known, found[0].n_unknown)
    in_order, notes = [found[0]], []
    for path, scores in zip(paths[1:], found[1:], strict=True):
        both = str(paths[0]), str(path)
        in_order.append(
            in_order_of(scores, found[0], caller="openset compare", names=both)
        )
        if seems_reordered(scores, found[0]):
            notes.append(
                f"{path} has the same numbers of labels and predicted classes as "
                f"{paths[0]}, but in other rows: are its samples in another order? The "
                "tests compare row by row. If both files have a column of ids, they "
                "compare the samples with the same id."
            )
    if any(one is not other for one, other in zip(found, in_order, strict=True)):
        notes.append("The samples are in different orders; they are paired by ids.")
    for note in notes:
        ERRORS.print(note, markup=False, highlight=False, soft_wrap=True)
    return dict(zip(names, in_order, strict=True))


def compare_scores(
    found: Mapping[str, Scores],
    tested: Sequence[Metric],
    form: Form,
    *,
    shown: Sequence[Metric] | None,
    against: str | None,
    correction: str,
    level: float,
    bootstrap: int,
) -> None:
    """Evaluate scores of the same samples, in the same order, and test each pair.

    `shown` are the metrics to show; None: all.
    """
    if against is not None:
        _check.one_of("openset compare", "--against", against, list(found))
    evaluations = {
        name: metrics.evaluate(scores, None, level, metrics=shown, bootstrap=bootstrap)
        for name, scores in found.items()
    }
    test = partial(
        _pairwise, found, _pairs(found, against), level=level, correction=correction
    )
    _show(evaluations, tested, test, form, level=level, correction=correction)


def _pairs(names: Iterable[str], against: str | None) -> list[tuple[str, str]]:
    """Return the pairs to test; one method against all others comes first in each."""
    pairs = [(a, b) for a, b in combinations(names, 2) if against in {None, a, b}]
    return [(b, a) if b == against else (a, b) for a, b in pairs]


def _pairwise(
    found: Mapping[str, Scores],
    pairs: Sequence[tuple[str, str]],
    metric: Metric,
    *,
    level: float,
    correction: str,
) -> list[dict[str, Any]]:
    """Return one record per pair, the smallest p-value first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PairingWarning)  # said when they were read
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


def _show(
    evaluations: Mapping[str, metrics.Evaluation],
    rows: Sequence[Metric],
    test: Callable[[Metric], list[dict[str, Any]]],
    form: Form,
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
