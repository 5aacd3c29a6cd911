"""Read files of scores: one, those of a folder, or those that match a pattern."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from openset import score_files
from openset._types import ArtefactError
from openset.metrics import evaluate
from openset.report._runs import ReportData, Run, Value
from openset.scores import Scores

_SUFFIXES = (".npz", ".csv", ".parquet")


def from_folder(folder: Path, study: Mapping[str, Any], headline: str) -> ReportData:
    """Read the files in ``scores/`` of a folder; each is a run of its own method."""
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
        run = from_file(file, file.stem, None if value is None else float(value))
        made.append(run)
    return ReportData(
        title=folder.resolve().name,
        runs=tuple(made),
        headline=headline,
        folder=folder,
    )


def from_pattern(pattern: Path, load: Callable[[Path], Scores]) -> ReportData:
    """Read files of scores by a pattern; their repeats are runs of one method."""
    made = []
    for one in score_files.find(pattern):
        run = from_file(one.path, one.method, None, load)
        where = {"protocol": one.protocol, "repeat": (one.repeat, one.seed)}
        made.append(replace(run, **where))  # type: ignore[arg-type]
    return ReportData(title=str(pattern), runs=tuple(made))


def from_file(
    path: Path,
    method: str,
    threshold: float | None,
    load: Callable[[Path], Scores] = Scores.load,
) -> Run:
    """Read a file of scores and compute its metrics."""
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
