"""Read the data of a report: folders of studies or training, or files of scores."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from openset import _check, checks, runs, score_files
from openset._types import ArtefactError
from openset.checks import Finding
from openset.magnitudes import FeatureMagnitudes
from openset.metrics import evaluate, table
from openset.results import Result, Results
from openset.scores import Scores
from openset.thresholds import Threshold
from openset.thresholds import report as report_on

HEADLINE = "openauc"
_SUFFIXES = (".npz", ".csv", ".parquet")
_OF_A_RUN = ("protocol", "repeat", "seed")  # these distinguish repeats, not methods
_OF_A_METHOD = ("model", "method", "detector")
_TITLE = re.compile(r"([^()]+)\(([^()]*=[^()]*)\)")


@dataclass(frozen=True)
class Value:
    """A measured number with its interval, if it has one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """One cell: one run of a method on a protocol."""

    method: str
    family: str = ""  # the method without its parameters
    trained: str = ""  # how the network was trained, without the detector
    protocol: str = ""
    repeat: tuple[int, int] = (0, 0)
    values: Mapping[str, Value]
    n: int = 0
    scores_path: Path | None = None
    calibration_path: Path | None = None
    threshold: Threshold | float | None = None
    operation: Mapping[str, Any] | None = None
    classes: tuple[str, ...] = ()
    curve: Sequence[Mapping[str, Any]] | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    network: tuple[str, str] = ("", "")  # model and training method
    read: Callable[[Path], Scores] = runs.read_scores

    @property
    def has_scores(self) -> bool:
        """Whether its test scores were saved."""
        return self.scores_path is not None and self.scores_path.exists()

    @property
    def alpha(self) -> float | None:
        """The α with which its operation was reported, if any."""
        done = self.operation or {}
        found = done.get("alpha_test", done.get("alpha"))
        return None if found is None else float(found)

    def scores(self) -> Scores:
        """Read its test scores."""
        if self.scores_path is None:
            msg = f"report: {self.method} must have scores, got none"
            raise ArtefactError(msg)
        return self.read(self.scores_path)

    def calibration(self) -> Scores | None:
        """Read the scores its threshold was chosen on, if they were saved."""
        path = self.calibration_path
        if path is None or not path.exists():
            return None
        return self.read(path)


@dataclass(frozen=True)
class Heading:
    """Label of a metric, and whether higher or lower is better."""

    text: str
    better: str  # "higher", "lower" or "neither"


class Headings(dict[str, Heading]):
    """Headings of metrics by key, in the order of the leaderboard.

    They come from the table of metrics. A study may have metrics that are not installed
    here: its ``study.json`` describes them, ``{"metrics": {"nll": {"label": "NLL",
    "better": "lower"}}}``.
    """

    def __init__(self, settings: Any = None) -> None:
        super().__init__({row.key: Heading(row.short, row.better) for row in table()})
        for key, one in settings.items() if isinstance(settings, Mapping) else ():
            if key not in self and isinstance(one, Mapping):
                better = one.get("better", "neither")
                options = ["higher", "lower", "neither"]
                _check.one_of("report", f"better of {key!r}", better, options)
                self[key] = Heading(str(one.get("label", key)), better)

    def text(self, key: str) -> str:
        """Return the label of a metric."""
        return self[key].text if key in self else key.replace("_", " ")

    def sign(self, key: str) -> int:
        """Return -1 if higher values are better, 1 if lower ones are."""
        better = self[key].better if key in self else "neither"
        if better == "neither":
            entry = {"metrics": {key: {"better": "lower"}}}
            msg = _check.must(
                "known",
                caller="report",
                name=f"the direction of {key!r}",
                got="a metric without a direction",
                remedy=f"Install the package it comes from, or add to study.json: "
                f"{json.dumps(entry)}",
            )
            raise ValueError(msg)
        return -1 if better == "higher" else 1


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportData:
    """All runs of a study, with its title, headings and findings."""

    title: str
    runs: tuple[Run, ...]
    headline: str = HEADLINE
    headings: Headings = field(default_factory=Headings)
    n_failed: int = 0
    folder: Path | None = None

    def magnitudes(self, run: Run) -> FeatureMagnitudes | None:
        """Return the feature magnitudes of a run's network, if they were saved.

        If there are several (draws, seeds), those of the first.
        """
        found = []
        for path in self._magnitude_files:
            one, key = FeatureMagnitudes.load(path)
            whose = tuple(key.get(name) for name in ("protocol", "model", "method"))
            if whose == (run.protocol, *run.network):
                found.append(((key.get("repeat", 0), key.get("seed", 0)), one))
        return min(found, key=lambda pair: pair[0])[1] if found else None

    @property
    def _magnitude_files(self) -> list[Path]:
        folder = self.folder
        return [] if folder is None else sorted(folder.glob("magnitudes/*.npz"))


def read(
    path: str | Path,
    *,
    threshold: float | None = None,
    columns: Mapping[str, str] | None = None,
    unknown_label: str | None = None,
    higher_is_unknown: bool = False,
) -> ReportData:
    """Read a folder of a study, of training or of scores, or files of scores."""
    path = Path(path)
    load = partial(
        Scores.load,
        columns=columns,
        unknown_label=unknown_label,
        higher_is_unknown=higher_is_unknown,
    )
    if score_files.is_pattern(path):
        if threshold is not None:
            msg = (
                "report: threshold must be given with one file of scores only, got a "
                f"pattern, {path}"
            )
            raise ValueError(msg)
        return _from_pattern(path, load)
    if path.is_dir():
        if threshold is not None:
            msg = (
                "report: threshold must be given with one file of scores only, got a "
                "folder. Its thresholds are in cells/ or in study.json"
            )
            raise ValueError(msg)
        settings = _study_json(path / "study.json")
        headline = str(settings.get("headline") or HEADLINE)
        title = str(settings.get("name") or path.resolve().name)
        if (path / "cells").is_dir():
            found = _from_cells(path, headline)
        elif trained := _trained_folders(path):
            found = _from_training(path, trained, headline)
        else:
            found = _from_scores(path, settings, headline)
        return replace(found, title=title, headings=Headings(settings.get("metrics")))
    if not path.exists():
        msg = f"report: no such file or folder: {path}"
        raise FileNotFoundError(msg)
    run = _from_file(path, path.stem, threshold, load)
    return ReportData(title=path.name, runs=(run,))


def findings(data: ReportData) -> list[Finding]:
    """Run `openset.checks`; of many cells a sample is checked, which is reported."""
    if data.folder is not None:
        return checks.run_folder(data.folder)
    first = data.runs[0]
    if len(data.runs) == 1:
        return checks.run(
            scores=first.scores(), thresholds=first.threshold, headline=data.headline
        )
    # Scores of one run, which are compared sample by sample, and numbers of all.
    run = (first.protocol, first.repeat)
    return checks.run(
        scores={
            one.method: one.scores()
            for one in data.runs
            if (one.protocol, one.repeat) == run
        },
        results=Results(
            Result(
                protocol=one.protocol,
                repeat=one.repeat[0],
                detector=one.method,
                seed=one.repeat[1],
                metric=key,
                value=value.value,
                n=one.n,
            )
            for one in data.runs
            for key, value in one.values.items()
        ),
        headline=data.headline,
    )


@dataclass(frozen=True)
class ThresholdCaution:
    """A caution about thresholds: its code, the methods it concerns, and an example."""

    code: str
    methods: tuple[str, ...]
    message: str


def cautions(data: ReportData) -> list[ThresholdCaution]:
    """Return the cautions of the thresholds chosen in the study, one row per code.

    They come from the saved calibration scores. CAL011 is left out: it needs the
    training outputs, which a study may not have kept.
    """
    found: dict[str, dict[str, str]] = {}
    for run in data.runs:
        calibration = run.calibration()
        if calibration is None or not isinstance(run.threshold, Threshold):
            continue
        for one in report_on(calibration, run.threshold).cautions:
            if one.code != "CAL011":
                found.setdefault(one.code, {}).setdefault(run.method, one.message)
    return [
        ThresholdCaution(code, tuple(of_method), next(iter(of_method.values())))
        for code, of_method in sorted(found.items())
    ]


def _study_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        settings = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        msg = f"report: {path} is not JSON: {error}"
        raise ArtefactError(msg) from error
    return settings if isinstance(settings, dict) else {}


def _from_cells(folder: Path, headline: str) -> ReportData:
    cells = runs.read_cells(folder)
    if not cells:
        msg = f"report: {folder} must hold finished cells, got none in cells/"
        raise ArtefactError(msg)
    _complete(folder, cells)
    names = _method_names([cell.key for cell in cells])
    return ReportData(
        title=folder.resolve().name,
        runs=tuple(
            _from_cell(folder, cell, name)
            for cell, name in zip(cells, names, strict=True)
        ),
        headline=headline,
        n_failed=len(list((folder / "failed").glob("*.json"))),
        folder=folder,
    )


def _complete(folder: Path, cells: Sequence[runs.Cell]) -> None:
    """Write ``results.csv``, which checks read, if the run was interrupted before."""
    path = folder / "results.csv"
    newest = (folder / "cells").stat().st_mtime_ns
    if path.exists() and path.stat().st_mtime_ns >= newest:
        return
    table = Results(row for cell in cells for row in cell.results())
    # A run folder without write permission can still be reported.
    with suppress(PermissionError):
        table.save(path)


def _from_cell(folder: Path, cell: runs.Cell, method: str) -> Run:
    values = {
        row["metric"]: Value(float(row["value"]), row.get("low"), row.get("high"))
        for row in cell.rows
    }
    operation = cell.operation
    if operation is not None and "oosa" in operation:
        values.setdefault(
            "oosa",
            Value(
                float(operation["oosa"]), operation.get("low"), operation.get("high")
            ),
        )
    name = f"{cell.id}.npz"
    return Run(
        method=method,
        family=" · ".join(
            _parsed(str(cell.key[n]))[0] for n in _OF_A_METHOD if cell.key[n]
        ),
        trained=_trained(cell.key),
        protocol=str(cell.key["protocol"]),
        repeat=(_int(cell.key.get("repeat")), _int(cell.key.get("seed"))),
        values=values,
        n=max((_int(row.get("n")) for row in cell.rows), default=0),
        scores_path=folder / "scores" / name,
        calibration_path=folder / "calibration" / name,
        threshold=_threshold(cell.threshold),
        operation=operation,
        classes=cell.classes,
        curve=cell.curve,
        numbers=_numbers(cell.key),
        network=(str(cell.key["model"]), str(cell.key["method"])),
    )


def _method_names(keys: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name each cell's method by what differs between methods, briefly."""
    varied = [
        name for name in _OF_A_METHOD if len({key.get(name, "") for key in keys}) > 1
    ] or ["detector"]
    others = sorted(
        {name for key in keys for name in key} - {*_OF_A_RUN, *_OF_A_METHOD}
    )
    extra = [
        name
        for name in others
        if len({json.dumps(key.get(name), sort_keys=True) for key in keys}) > 1
        and any(not isinstance(key.get(name), str | None) for key in keys)
    ]
    names = []
    for key in keys:
        parts = [str(key[name]) for name in varied if key.get(name)]
        parts += [_setting(name, key[name]) for name in extra if name in key]
        names.append(" · ".join(parts) or "–")
    return names


def _setting(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(_setting(k, v) for k, v in sorted(value.items()))
    return f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"


def _numbers(key: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers in a key: parameters that were varied."""
    found: dict[str, float] = {}
    for name, value in key.items():
        if name in _OF_A_RUN:
            continue
        if name in _OF_A_METHOD:
            base, settings = _parsed(str(value))
            found |= {f"{each} of {base}": at for each, at in settings.items()}
        elif isinstance(value, Mapping):
            found |= _numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = float(value)
    return found


def _parsed(title: str) -> tuple[str, dict[str, float]]:
    """Parse a title of a study: ``knn(k=5)`` is ``knn`` with k = 5.

    Examples
    --------
    >>> _parsed("knn(k=5, metric=cosine)"), _parsed("msp")
    (('knn', {'k': 5.0}), ('msp', {}))
    """
    match = _TITLE.fullmatch(title)
    if match is None:
        return title, {}
    settings = {}
    for pair in match[2].split(", "):
        name, _, value = pair.partition("=")
        with suppress(ValueError):  # a setting that is not a number
            settings[name] = float(value)
    return match[1], settings


def _trained(key: Mapping[str, Any]) -> str:
    settings = [_setting(n, v) for n, v in key.items() if isinstance(v, Mapping) and v]
    name = str(key["method"] or key["model"] or "network")
    return ", ".join([name, *settings])


def _threshold(record: Any) -> Threshold | float | None:
    if not isinstance(record, Mapping) or "value" not in record:
        return None
    try:
        return Threshold.from_dict(dict(record))
    except ArtefactError:  # a record written by other software: use its number
        return float(record["value"])


def _int(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _from_scores(folder: Path, study: Mapping[str, Any], headline: str) -> ReportData:
    files = sorted(
        (f for f in (folder / "scores").glob("*") if f.suffix in _SUFFIXES),
        key=lambda found: found.name,
    )
    if not files:
        msg = (
            f"report: {folder} must be a run folder (cells/) or hold scores/NAME.npz, "
            "got neither. Write one with: openset bench STUDY.yaml --out DIR"
        )
        raise ArtefactError(msg)
    chosen = study.get("thresholds")
    made = []
    for file in files:
        own = chosen.get(file.stem) if isinstance(chosen, Mapping) else chosen
        value = own.get("value") if isinstance(own, Mapping) else own
        run = _from_file(file, file.stem, None if value is None else float(value))
        made.append(run)
    return ReportData(
        title=folder.resolve().name,
        runs=tuple(made),
        headline=headline,
        folder=folder,
    )


_SPLIT_AND_SEED = re.compile(r"split(\d+)-seed(\d+)")


def _trained_folders(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return the finished runs of ``openset train`` with their split and seed."""
    if (folder / "trained.json").exists():
        return {folder: (0, 0)}
    found = {}
    for path in sorted(folder.glob("split*-seed*/trained.json")):
        name = _SPLIT_AND_SEED.fullmatch(path.parent.name)
        if name is not None:
            found[path.parent] = (int(name[1]), int(name[2]))
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _from_training(
    folder: Path, trained: Mapping[Path, tuple[int, int]], headline: str
) -> ReportData:
    """Read training runs: their scores, class names and learning curves."""
    made: list[Run] = []
    for path, repeat in trained.items():
        record = _study_json(path / "trained.json")
        spec = record.get("spec", {})
        protocol = spec.get("protocol")
        classes = protocol.get("known", ()) if isinstance(protocol, Mapping) else ()
        for run in _from_scores(path, {}, headline).runs:
            known = replace(
                run,
                repeat=repeat,
                trained=str(spec.get("method", "network")),
                classes=run.classes or tuple(map(str, classes)),
                curve=_curve_of(record.get("log", [])),
            )
            made.append(known)
    return ReportData(
        title=folder.resolve().name,
        runs=tuple(made),
        headline=headline,
        # The checks read one folder with scores/.
        folder=folder if folder in trained else None,
    )


def _curve_of(log: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return loss and accuracy over epochs; of the test part where it was recorded."""
    recorded = [line for line in log if "test_accuracy" in line]
    return [
        {
            "epoch": line["epoch"] + 1,
            "loss": line["loss"],
            "training_accuracy": line["accuracy"],
        }
        | {k.removeprefix("test_"): v for k, v in line.items() if k[:5] == "test_"}
        for line in recorded or log
    ]


def _from_pattern(pattern: Path, load: Callable[[Path], Scores]) -> ReportData:
    """Read files of scores by a pattern; their repeats are runs of one method."""
    made = []
    for one in score_files.find(pattern):
        run = _from_file(one.path, one.method, None, load)
        where = {"protocol": one.protocol, "repeat": (one.repeat, one.seed)}
        made.append(replace(run, **where))  # type: ignore[arg-type]
    return ReportData(title=str(pattern), runs=tuple(made))


def _from_file(
    path: Path,
    method: str,
    threshold: float | None,
    load: Callable[[Path], Scores] = Scores.load,
) -> Run:
    scores = load(path)
    found = evaluate(scores, threshold)
    calibration = path.parent.parent / "calibration" / path.name
    return Run(
        method=method,
        values={
            name: Value(
                found[name],
                *(
                    (span.low, span.high)
                    if (span := found.intervals.get(name))
                    else (None, None)
                ),
            )
            for name in found.values_
        },
        n=len(scores),
        scores_path=path,
        classes=scores.class_names or (),
        calibration_path=calibration if path.parent.name == "scores" else None,
        threshold=threshold,
        read=load,
    )
