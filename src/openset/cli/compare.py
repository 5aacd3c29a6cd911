"""`openset compare`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.text import Text

import openset
from openset import _io
from openset.cli.evaluate import computed, facts, rows_of
from openset.cli.options import Json, Out, read, reading, refuse
from openset.cli.terminal import OUT, deliver, number, say, table, warn


def command(
    paths: Annotated[list[Path], typer.Argument(metavar="SCORES")],
    calibration: list[Path] | None = None,
    alpha: str = "0.5",
    metric: Annotated[list[str] | None, typer.Option(show_default=False)] = None,
    against: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    correction: Literal["holm", "bonferroni", "none"] = "holm",
    level: float = 0.95,
    columns: str = "",
    unknown_label: str | None = None,
    higher_is_unknown: Annotated[bool, typer.Option("--higher-is-unknown")] = False,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Compare detectors: metrics with intervals, and pairwise tests.

    Files of scores are compared by tests over their samples. Repeats (a pattern with
    {seed}) and the runs of a study are compared by paired t-tests over independent
    runs.

        openset compare scores/*.npz --metric auroc --out table.tex
        openset compare scores/*.npz --calibration 'calibration/{method}.npz'
        openset compare 'runs/{method}_seed{seed}.csv' --metric openauc --metric auroc
        openset compare runs/study --metric oosa --against postmax --correction bonferroni

    Parameters
    ----------
    paths
        Scores of the same samples: two or more files. Or a pattern in quotes,
        'runs/{method}_seed{seed}.csv': the fields seed, run, fold and split number
        repeats, protocol names the problem, and all other fields name the method. Or a
        run folder of openset bench, or its results.csv.
    calibration
        Scores of the same detectors on calibration samples, in files of the same names,
        or by a pattern: choose each threshold on them, and compare operational open-set
        accuracy (oosa), too. May be repeated.
    metric
        Metric to show and test, or a metric of your own, package.module:Name; may be
        repeated. Default: openauc (and oosa) are tested, and auroc, accuracy and
        fpr_at_tpr are shown, too.
    against
        Test only this method against every other one (default: all pairs).
    correction
        Correction for the number of tests.
    """  # noqa: E501  # commands can be pasted
    how = reading(columns, unknown_label, higher_is_unknown=higher_is_unknown)
    refuse(alpha != "0.5" and not calibration, "--alpha needs --calibration")
    metric = list(dict.fromkeys(metric or ()))  # one may be given twice
    tested = metric or ["openauc", *["oosa"] * bool(calibration)]
    settings: dict[str, Any] = {"against": against, "correction": correction}
    settings["level"] = level
    first, is_pattern = paths[0], openset.stats.score_files.is_pattern
    is_table = first.suffix == ".csv" and not is_pattern(first)
    is_study = len(paths) == 1 and (first.is_dir() or is_table)
    files = [] if is_study else openset.stats.score_files.find_or_name(paths)
    if is_study or any(file.has_repeats for file in files):
        refuse(calibration, "--calibration is for single files of scores")
        unused = is_study and (columns or unknown_label or higher_is_unknown)
        refuse(unused, "a study has no files of scores to read in another way")
        shown = tested if is_study else metric or [*openset.stats.METRICS]
        if files:
            results = openset.stats.read_results(paths, shown, **how)
        elif is_table:
            results = openset.results.Results.load(first)
        else:
            results = openset.runs.results(first)
        _compare_runs(results, shown, tested, settings, as_json=as_json, out=out)
        return
    places = {file.method: file.path for file in files}
    scores = {name: openset.Scores.load(path, **how) for name, path in places.items()}
    operations: dict[str, Any] = {}
    if calibration:
        chosen_on = openset.stats.score_files.find_or_name(calibration)
        by_name, weight = {file.method: file.path for file in chosen_on}, read(alpha)
        missing = sorted(scores.keys() - by_name)
        refuse(missing, f"--calibration has no file of {', '.join(missing)}")
        for name, one in scores.items():
            loaded = openset.Scores.load(by_name[name], **how)
            operations[name] = openset.thresholds.operate(
                loaded, one, alpha=weight, level=level
            )
    sets, documents = {}, {}
    for name, one in scores.items():
        with _io.naming(places[name]):
            found = openset.evaluate(one, None, level, metrics=computed(metric))
        sets[name], documents[name] = facts(found, operations.get(name))
    tests = [t for m in tested for t in _tests(scores, operations, m, **settings)]
    if as_json or out is not None:
        document = {"evaluations": documents, "tests": tests}
        rows = [{"set": name, **row} for name, of in sets.items() for row in of]
        deliver(out, rows, document, rows_of(sets, metric, percent=True, rivals=True))
        return
    one = next(iter(scores.values()))
    title = f"{one.n_known} known and {one.n_unknown} unknown samples"
    table(rows_of(sets, metric, rivals=True), title)
    if not metric:
        say("Others: --metric NAME; all of them: --out FILE.csv or --json", style="dim")
    _print_tests(tests, correction, level, {})


def _tests(
    scores: Mapping[str, Any],
    operations: Mapping[str, Any],
    metric: str,
    *,
    against: str | None,
    level: float,
    correction: Any,
) -> list[dict[str, Any]]:
    """Test each pair of files; one method against all others comes first in each."""
    refuse(against not in {None, *scores}, f"--against must be one of {[*scores]}")
    refuse(metric == "oosa" and not operations, "--metric oosa needs --calibration")
    pairs = [(a, b) for a, b in combinations(scores, 2) if against in {None, a, b}]
    pairs = [(b, a) if b == against else (a, b) for a, b in pairs]
    found: list[dict[str, Any]] = []
    for a, b in pairs:
        how: dict[str, Any] = {"metric": metric}
        if metric == "oosa":  # the accuracies at the two calibrated thresholds
            done = operations[a], operations[b]
            how = {"metric": "osa", "alpha": done[0].alpha_test}
            how["threshold"] = tuple(one.threshold.value for one in done)
        try:
            test = openset.stats.compare(scores[a], scores[b], level=level, **how)
        except openset.UndefinedMetricError as error:
            warn(f"No pairwise tests. {error}")
            return []
        ends = {"low": test.interval.low, "high": test.interval.high}
        key = metric if metric == "oosa" else test.metric
        one = {"metric": key, "a": a, "b": b, "difference": test.difference, **ends}
        found.append(one | {"p_value": test.p_value})
    p_values = openset.stats.adjust([one["p_value"] for one in found], correction)
    found = [o | {"p_corrected": p} for o, p in zip(found, p_values, strict=True)]
    return sorted(found, key=lambda one: one["p_corrected"])


def _compare_runs(
    results: Any,
    shown: Sequence[str],
    tested: Sequence[str],
    settings: Mapping[str, Any],
    *,
    as_json: bool,
    out: Path | None,
) -> None:
    """Show means over runs, and paired t-tests."""
    stats, have = openset.stats, {row.metric for row in results}

    def key(name: str) -> str:  # a study may have metrics that are not installed
        return name if name in have else openset.metrics.get(name).key

    found = [stats.paired_t(results, key(name), **settings) for name in tested]
    tests = [asdict(test) for of_metric in found for test in of_metric]
    how = {name: settings[name] for name in ("level", "correction")}
    if len({row.protocol for row in results}) == 1:
        keys = list(map(key, shown))
        boards = [stats.leaderboard(results, keys, **how)]
    else:
        boards = [stats.leaderboard(results, key(name), **how) for name in shown]
    if as_json or out is not None:
        rows = [row for board in boards for row in board.records()]
        latex = "\n".join(board.to_latex() for board in boards)
        deliver(out, rows, {"leaderboards": rows, "tests": tests}, latex)
        return
    OUT.print(*boards, sep="\n")
    _print_tests(tests, how["correction"], how["level"], results.better)
    for over in dict.fromkeys(test["over"] for test in tests):
        say(f"n: {over}", style="dim")


def _print_tests(
    tests: Sequence[Mapping[str, Any]],
    correction: str,
    level: float,
    better: Mapping[str, str],
) -> None:
    """Print one table of tests per metric."""
    for metric in dict.fromkeys(test["metric"] for test in tests):
        lower = openset.stats.direction(metric, better) == "lower"
        rows = []
        for test in (test for test in tests if test["metric"] == metric):
            p, low, high = test["p_corrected"], test["low"], test["high"]
            winner = test["a"] if (test["difference"] > 0) != lower else test["b"]
            is_sure = p is not None and p < 1 - level
            span = None if low is None else f"{low:+.4f} … {high:+.4f}"
            row = {
                name: test[name] for name in ("protocol", "a", "b") if test.get(name)
            }
            row |= {"a - b": number(f"{test['difference']:+.4f}")}
            row |= {f"{100 * level:g}% interval": span}
            row |= {"p": None if p is None else number(f"{p:.2g}")}
            rows.append(
                row | {"better": Text(winner, "bold") if is_sure else "unclear"}
            )
        said = f"Pairwise differences in {metric}; correction of p-values: {correction}"
        table(rows, said)
