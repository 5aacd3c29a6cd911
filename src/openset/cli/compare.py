"""`openset compare`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from openset import _check, stats
from openset.cli._compare_runs import compare_repeats, compare_study, is_results
from openset.cli._compare_scores import compare_scores, load, testable
from openset.cli._console import Csv, Form, Json, Latex, need_one_form
from openset.cli._errors_in_options import Bootstrap, Level, naming
from openset.cli._score_files import (
    Columns,
    HigherIsUnknown,
    UnknownLabel,
    reading,
)
from openset.stats import score_files

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
    if bootstrap < 0:
        msg = f"openset compare: --bootstrap must be >= 0, got {bootstrap}"
        raise typer.BadParameter(msg)
    for path in paths:  # before anything else is said about them
        if not path.exists() and not score_files.is_pattern(path):
            msg = f"openset compare: no such file or folder: {path}"
            raise FileNotFoundError(msg)
    form = Form(json=as_json, csv=csv, latex=latex)
    metric = list(dict.fromkeys(metric or ()))  # one may be given twice
    tested = metric or [_DEFAULT]
    about: dict[str, Any] = {"against": against, "correction": correction}
    of_runs: dict[str, Any] = {"pool": pool, "test_share": test_share}
    if len(paths) == 1 and (paths[0].is_dir() or is_results(paths[0])):
        _need_none({"--bootstrap": bootstrap, "--columns": columns})
        compare_study(paths[0], tested, form, level=level, **about, **of_runs)
        return
    files = score_files.find_or_name(paths)
    if any(file.has_repeats for file in files):
        _need_none({"--bootstrap": bootstrap})
        results = stats.read_results(paths, metric or stats.METRICS, **options)
        seeds = all("{seed}" in str(path) for path in paths)
        # The metrics of results have their keys, and those to test come first.
        tested = list(dict.fromkeys(row.metric for row in results))[: len(tested)]
        compare_repeats(
            results, tested, form, level=level, of_networks=seeds, **about, **of_runs
        )
        return
    _refuse(of_runs)
    rows = testable(tested)
    names = [file.method for file in files]
    compare_scores(
        load([file.path for file in files], names, options),
        rows,
        form,
        shown=rows if metric else None,
        level=level,
        bootstrap=bootstrap,
        **about,
    )


def _need_none(options: Mapping[str, object]) -> None:
    for option, value in options.items():
        if value:
            msg = f"openset compare: {option} is of no use for repeats and run folders"
            raise typer.BadParameter(msg)


def _refuse(of_runs: Mapping[str, object]) -> None:
    for name, value in of_runs.items():
        if value:
            option = f"--{name.replace('_', '-')}"
            msg = (
                f"openset compare: {option} can be given with a run folder or a "
                "pattern with repeats only"
            )
            raise typer.BadParameter(msg)
