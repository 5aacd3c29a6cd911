"""The data of a report: the runs of a run folder, or files of scores."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from openset import _check, _io, runs
from openset._types import ArtefactError
from openset.metrics import evaluate, table
from openset.metrics.counts import ALPHA
from openset.results import Result, Results
from openset.scores import Scores, in_order_of
from openset.stats import score_files
from openset.stats.same_runs import names_of, who
from openset.thresholds import Threshold

HEADLINE = "openauc"

_SUFFIXES = (".npz", ".csv", ".parquet")


class Value(NamedTuple):
    """A measured number with its interval, if it has one."""

    value: float
    low: float | None = None
    high: float | None = None


class Place(NamedTuple):
    """Which run of a method it is, as :mod:`openset.stats` counts runs.

    `split` numbers the test samples of one network.
    """

    protocol: str = ""
    repeat: int = 0
    split: int = 0
    seed: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """One run of a method on a problem: its numbers, and where its scores are."""

    method: str
    trained: str = ""  # how the network was trained, without the detector
    place: Place = field(default_factory=Place)
    values: Mapping[str, Value]
    n: int = 0
    scores_path: Path = Path()
    calibration_path: Path | None = None
    threshold: Threshold | float | None = None
    operation: Mapping[str, Any] | None = None
    classes: tuple[str, ...] = ()
    curve: Sequence[Mapping[str, Any]] | None = None
    load: Callable[[Path], Scores] = Scores.load

    @property
    def has_scores(self) -> bool:
        """Whether its test scores were saved."""
        return self.scores_path.is_file()

    @property
    def cut(self) -> float | None:
        """The threshold in use, as a number."""
        one = self.threshold
        return one.value if isinstance(one, Threshold) else one

    @property
    def alpha(self) -> float:
        """The α with which its operation was reported, or would be."""
        return float((self.operation or {}).get("alpha", ALPHA))

    def scores(self) -> Scores:
        """Read its test scores."""
        return self.load(self.scores_path)

    def calibration(self) -> Scores | None:
        """Read the scores its threshold was chosen on, if they were saved."""
        path = self.calibration_path
        return None if path is None or not path.exists() else self.load(path)


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """All runs, and what the study says of them: title, headline, its metrics.

    `metrics` are those it names, in its order; without any, all may be shown.
    """

    title: str
    runs: tuple[Run, ...]
    headline: str = HEADLINE
    metrics: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    better: Mapping[str, str] = field(default_factory=dict)  # of metrics of others
    n_failed: int = 0
    folder: Path | None = None

    def label(self, metric: str) -> str:
        """Return the name of a metric, with its positive class and its α."""
        if metric == "oosa":
            told = sorted({run.alpha for run in self.runs})
            return f"OOSA (α = {' or '.join(f'{alpha:g}' for alpha in told)})"
        for row in table():
            if row.key == metric:
                return row.label if "positive" in row.label else row.short
        return self.labels.get(metric, metric.replace("_", " "))

    def results(self, chosen: Iterable[Run] | None = None) -> Results:
        """Return the numbers of runs, each method by its name."""
        last = {(run.method, run.place): run for run in chosen or self.runs}
        made = []
        for run in last.values():
            about: dict[str, Any] = {"detector": run.method, **run.place._asdict()}
            for key, value in run.values.items():
                made.append(Result(metric=key, value=value.value, n=run.n, **about))
        return Results(made, better=self.better)


def read(
    source: str | Path | Sequence[str | Path],
    load: Callable[[Path], Scores],
    threshold: float | None = None,
) -> Study:
    """Read a run folder, a folder of training or of scores, or files of scores."""
    given = [source] if isinstance(source, str | Path) else source
    paths = [Path(one) for one in given]
    folders = [str(path) for path in paths if path.is_dir()]
    is_one = len(paths) == 1 and not score_files.is_pattern(paths[0])
    if threshold is not None and (folders or not is_one):
        rule = "given with one file of scores only: those of a study are in its cells"
        _check.fail("report", "threshold", rule, ", ".join(map(str, paths)))
    if folders and is_one:
        return _from_folder(paths[0])
    if folders or not paths:
        got = f"{len(paths)} paths with {len(folders)} folders: {', '.join(folders)}"
        _check.fail("report", "source", "one folder, or files of scores", got)
    if is_one:
        run = _from_file(paths[0], paths[0].stem, load, threshold)
        return Study(title=paths[0].name, runs=(run,))
    return _from_files(paths, load)


def _from_folder(folder: Path) -> Study:
    checked: Path | None = folder
    if (folder / "cells").is_dir():
        made = _from_cells(folder)
    elif trained := _trained_folders(folder):
        made = [run for at in trained.items() for run in _from_training(at[0], *at[1])]
        # The checks read one folder with scores/.
        checked = folder if folder in trained else None
    elif files := sorted(folder.glob("scores-*.[ncp]*")):  # of openset score
        return _from_files(files, Scores.load)
    else:
        made = _from_scores(folder)
    if not made:
        remedy = "Files of scores are given by name: openset report a.csv b.csv"
        rule = "a run folder of openset bench with finished cells, or hold scores/"
        _check.fail("report", str(folder), rule, "neither", remedy, ArtefactError)
    said = runs.said(folder)
    own = said.get("metrics") or {}
    return Study(
        title=str(said.get("name") or folder.resolve().name),
        runs=tuple(made),
        headline=str(said.get("headline") or HEADLINE),
        metrics=tuple(own),
        labels={key: str(one.get("label", key)) for key, one in own.items()},
        better=runs.directions(folder),
        n_failed=len(runs.failures(folder)),
        folder=checked,
    )


def _from_scores(folder: Path) -> list[Run]:
    files = [one for one in folder.glob("scores/*") if one.suffix in _SUFFIXES]
    return [
        _from_file(one, one.stem) for one in sorted(files, key=lambda one: one.name)
    ]


def _from_cells(folder: Path) -> list[Run]:
    """Read the cells that have numbers, each with what was run, as a row."""
    found = [cell for cell in runs.read_cells(folder) if cell.rows]
    pairs = [(cell, next(iter(cell.results()))) for cell in found]
    names = names_of(row for _, row in pairs)
    return [_from_cell(folder, cell, names[who(row)], row) for cell, row in pairs]


def _from_cell(folder: Path, cell: runs.Cell, name: str, row: Result) -> Run:
    return Run(
        method=name,
        trained=row.method or row.model or "network",
        place=Place(row.protocol, row.repeat, row.split, row.seed),
        values=_values(cell.rows),
        n=row.n,
        scores_path=folder / "scores" / f"{cell.id}.npz",
        calibration_path=folder / "calibration" / f"{cell.id}.npz",
        threshold=Threshold.from_dict(dict(cell.threshold)) if cell.threshold else None,
        operation=cell.operation,
        classes=tuple(cell.classes),
        curve=cell.curve,
    )


def _values(rows: Iterable[Mapping[str, Any]]) -> dict[str, Value]:
    """Return the numbers of rows by metric."""
    return {
        one["metric"]: Value(float(one["value"]), one.get("low"), one.get("high"))
        for one in rows
    }


def _from_files(paths: Sequence[Path], load: Callable[[Path], Scores]) -> Study:
    """Read several files of scores, or those of patterns.

    Files without repeats are detectors on one test set, and must be of the same
    samples. The title is the names of all methods, or the pattern.
    """
    firsts: dict[str, tuple[Path, Scores]] = {}  # by protocol
    made = []
    for one in score_files.find_or_name(paths):
        at = Place(one.protocol, one.repeat, 0, one.seed)
        run = replace(_from_file(one.path, one.method, load), place=at)
        if not one.has_repeats:
            scores = run.scores()
            path, first = firsts.setdefault(one.protocol, (one.path, scores))
            both = str(path), str(one.path)
            in_order_of(scores, first, caller="report", names=both)
        # Inner misleads without Halfpoint (OSR003), which needs a threshold.
        values = {key: v for key, v in run.values.items() if key != "inner_score"}
        made.append(replace(run, values=values))
    names = ", ".join(dict.fromkeys(run.method for run in made))
    return Study(title=str(paths[0]) if len(paths) == 1 else names, runs=tuple(made))


def _from_file(
    path: Path,
    method: str,
    load: Callable[[Path], Scores] = Scores.load,
    threshold: float | None = None,
) -> Run:
    """Read a file of scores and compute its metrics."""
    scores = load(path)
    found = evaluate(scores, threshold)
    calibration = path.parent.parent / "calibration" / path.name
    return Run(
        method=method,
        values=_values(found.rows()),
        n=len(scores),
        scores_path=path,
        classes=tuple(scores.class_names or ()),
        calibration_path=calibration if path.parent.name == "scores" else None,
        threshold=threshold,
        load=load,
    )


def _trained_folders(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return the finished runs of ``openset train`` with their split and seed."""
    if (folder / "trained.json").exists():
        return {folder: (0, 0)}
    found = {}
    for path in folder.glob("split*-seed*/trained.json"):
        if name := re.fullmatch(r"split(.+)-seed(\d+)", path.parent.name):
            found[path.parent] = name[1], int(name[2])
    splits = sorted({split for split, _ in found.values()}, key=lambda s: (len(s), s))
    numbered = {one: (splits.index(at[0]), at[1]) for one, at in found.items()}
    return dict(sorted(numbered.items(), key=itemgetter(1)))


def _from_training(folder: Path, repeat: int, seed: int) -> list[Run]:
    """Read a training run: its scores, class names and learning curves."""
    path, curve = folder / "trained.json", []
    with _io.naming(path):
        record = json.loads(path.read_bytes())
    spec, log = record["spec"], record["log"]
    # of the test part where it was recorded
    for line in [line for line in log if "test_accuracy" in line] or log:
        tested = {k[5:]: v for k, v in line.items() if k.startswith("test_")}
        own = {"loss": line["loss"], "training_accuracy": line["accuracy"]}
        curve.append({"epoch": line["epoch"] + 1} | own | tested)
    return [
        replace(
            one,
            place=Place(repeat=repeat, seed=seed),
            curve=curve,
            trained=spec["method"],
            classes=one.classes or tuple(map(str, spec["protocol"]["known"])),
        )
        for one in _from_scores(folder)
    ]
