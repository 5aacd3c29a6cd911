"""`openset evaluate`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from openset import _check, _io
from openset.cli._console import OUT, Csv, Json, Latex, as_json_text, need_one_form
from openset.cli._errors_in_options import Bootstrap, Level, keep_inputs, naming
from openset.cli._score_files import (
    Columns,
    HigherIsUnknown,
    UnknownLabel,
    reading,
)
from openset.cli._tables import as_csv, as_latex, show, show_brackets
from openset.metrics import Evaluation, Sketch
from openset.metrics import by_group as evaluate_groups
from openset.metrics import evaluate as evaluate_scores
from openset.scores import Scores

EPILOG = """[bold]Examples[/bold]

openset evaluate scores.npz

openset evaluate scores.npz --threshold 0.7 --bootstrap 1000

openset evaluate scores.csv --groups --latex --out table.tex

openset evaluate theirs.csv --columns labels=y,known=energy \\
    --higher-is-unknown --unknown-label oos

openset evaluate scores-monday.npz scores-tuesday.npz --sketch"""

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "level": "--level",
    "bootstrap": "--bootstrap",
    "threshold": "--threshold",
    "metrics": "--metric",
    "clusters": "--clusters",
    "columns": "--columns",
    "unknown_label": "--unknown-label",
}


@naming("openset evaluate", _OPTIONS)
def command(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="SCORES",
            help="Scores as .npz, .csv or .parquet, with columns labels (-1 or "
            "unknown for unknown samples), predicted, known and optionally groups "
            "and ids. Several files need --sketch.",
        ),
    ],
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Also report metrics at this threshold: samples with known >= "
            "threshold are accepted. Choose it on other data (default: none)."
        ),
    ] = None,
    groups: Annotated[
        bool,
        typer.Option(
            "--groups",
            help="Show one column per group of unknown samples "
            "(default: all unknown samples together).",
        ),
    ] = False,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="Show only this metric; may be repeated (default: all). A metric "
            "of your own: package.module:Name.",
            show_default=False,
        ),
    ] = None,
    level: Level = 0.95,
    bootstrap: Bootstrap = 0,
    clusters: Annotated[
        bool,
        typer.Option(
            "--clusters",
            help="For --bootstrap: resample whole groups instead of single samples, "
            "for data whose samples depend on each other within a group.",
        ),
    ] = False,
    sketch: Annotated[
        bool,
        typer.Option(
            "--sketch",
            help="For scores that do not fit into memory: read one file after the "
            "other and keep only counts. Each metric is shown as two numbers, a "
            "lower and an upper bound of its exact value.",
        ),
    ] = False,
    columns: Columns = "",
    unknown_label: UnknownLabel = None,
    higher_is_unknown: HigherIsUnknown = False,
    as_json: Json = False,
    csv: Csv = False,
    latex: Latex = False,
    out: Annotated[
        Path | None, typer.Option(help="Write to this file instead of printing.")
    ] = None,
) -> None:
    """Print all metrics of a file of scores, with confidence intervals."""
    need_one_form("openset evaluate", as_json=as_json, csv=csv, latex=latex)
    if clusters:
        _check_clusters(bootstrap=bootstrap, groups=groups)
    if out is not None and not (as_json or csv or latex):
        msg = "openset evaluate: --out needs one of --json, --csv and --latex"
        raise typer.BadParameter(msg)
    keep_inputs("openset evaluate", out, *paths)
    options = reading(
        caller="openset evaluate",
        columns=columns,
        unknown_label=unknown_label,
        higher_is_unknown=higher_is_unknown,
    )
    if sketch:
        refused = {
            "--groups": groups,
            "--metric": metric,
            "--bootstrap": bootstrap,
            "--clusters": clusters,
            "--csv": csv,
            "--latex": latex,
            "--level": level != 0.95,  # brackets are certain
        }
        _need_none("--sketch", refused)
        _evaluate_sketch(paths, threshold, options, out=out, as_json=as_json)
        return
    if len(paths) > 1:
        msg = (
            f"openset evaluate: SCORES must be one file, got {len(paths)}. Add "
            "--sketch to evaluate several as one set, or use openset compare"
        )
        raise typer.BadParameter(msg)
    (path,) = paths
    scores = Scores.load(path, **options)
    _check_scores(path, scores, with_groups=groups or clusters)
    evaluations: dict[str, Evaluation] = {
        "all": evaluate_scores(
            scores,
            threshold,
            level,
            metrics=metric,
            bootstrap=bootstrap,
            clusters="groups" if clusters else None,
        )
    }
    if groups:
        found = evaluate_groups(
            scores, threshold, level, metrics=metric, bootstrap=bootstrap
        )
        named = zip(_column_names(found), found.values(), strict=True)
        evaluations |= dict(named)
    writers = {_as_json: as_json, as_csv: csv, as_latex: latex}
    for writer, is_wanted in writers.items():
        if is_wanted:
            _deliver(writer(evaluations), out)
            return
    _print_tables(path, scores, evaluations)


def _column_names(groups: Iterable[str]) -> list[str]:
    """Name the column of each group; no name may be empty, or stand for two.

    Examples
    --------
    >>> _column_names(["", "all", "group all", "near"])
    ['no group', 'group group all', 'group all', 'near']
    """
    names = list(groups)
    taken = {"all", *names}  # a group called "all" is not the set of all samples
    for i, name in enumerate(names):
        if name in {"", "all"}:
            new = f"group {name}" if name else "no group"
            while new in taken:
                new = f"group {new}"
            taken.add(new)
            names[i] = new
    return names


def _check_clusters(*, bootstrap: int, groups: bool) -> None:
    if not bootstrap:
        msg = "openset evaluate: --clusters needs --bootstrap, e.g. --bootstrap 1000"
        raise typer.BadParameter(msg)
    if groups:
        msg = (
            "openset evaluate: at most one of --groups and --clusters can be given: "
            "the unknowns of a column would be a single cluster"
        )
        raise typer.BadParameter(msg)


def _need_none(option: str, others: Mapping[str, object]) -> None:
    given = [name for name, value in others.items() if value]
    if given:
        msg = f"openset evaluate: {given[0]} cannot be used with {option}"
        raise typer.BadParameter(msg)


def _evaluate_sketch(
    paths: Sequence[Path],
    threshold: float | None,
    options: Mapping[str, Any],
    *,
    out: Path | None,
    as_json: bool,
) -> None:
    """Count the scores of all files, one at a time, and show the brackets."""
    sketch = Sketch()
    for path in paths:
        sketch.update(Scores.load(path, **options))
    found = sketch.brackets(threshold)
    if as_json:
        document: dict[str, Any] = {
            "n_known": sketch.n_known,
            "n_unknown": sketch.n_unknown,
            "threshold": threshold,
            "brackets": {key: one._asdict() for key, one in found.items()},
        }
        _deliver(as_json_text(document) + "\n", out)
        return
    title = f"{len(paths)} files" if len(paths) > 1 else paths[0].name
    title += f": {sketch.n_known} known samples, {sketch.n_unknown} unknown"
    OUT.print(show_brackets(found, title=title))


def _check_scores(path: Path, scores: Scores, *, with_groups: bool) -> None:
    with _io.naming(path):
        _check.both_sides("openset evaluate", scores.n_known, scores.n_unknown)
    if with_groups and scores.groups is None:
        msg = (
            f"openset evaluate: {path} must hold groups for --groups and --clusters, "
            "got none. Add a column groups with the origin of each sample"
        )
        raise ValueError(msg)


def _as_json(evaluations: Mapping[str, Evaluation]) -> str:
    documents = {n: json.loads(e.to_json()) for n, e in evaluations.items()}
    # A single evaluation is written without its name.
    document = documents if len(documents) > 1 else documents["all"]
    return json.dumps(document, indent=2) + "\n"


def _print_tables(
    path: Path, scores: Scores, evaluations: dict[str, Evaluation]
) -> None:
    whole = evaluations["all"]
    title = (
        f"{path.name}: {whole.n_known} known samples of {scores.classes.size} classes, "
        f"{whole.n_unknown} unknown"
    )
    if whole.threshold is not None:
        title += f", threshold {whole.threshold:g}"
    OUT.print(show(evaluations, title=title))
    for note in whole.notes:
        OUT.print(f"note: {note}", style="dim")


def _deliver(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    _io.put(out, text)
    OUT.print(f"wrote {out}", markup=False, soft_wrap=True)
