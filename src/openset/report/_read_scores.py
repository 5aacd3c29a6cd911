"""Read files of scores: one, several, those of a folder or of a pattern."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openset._types import ArtefactError
from openset.metrics import evaluate
from openset.report._runs import ReportData, Run, Value
from openset.scores import Scores, in_order_of
from openset.stats import score_files

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
            "got neither. Write one with: openset bench STUDY.yaml --out DIR. Files of "
            "scores are given by name: openset report a.csv b.csv"
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


def from_files(
    paths: Sequence[Path], load: Callable[[Path], Scores], title: str = ""
) -> ReportData:
    """Read several files of scores, or those of patterns.

    Files without repeats are detectors on one test set, and must be of the same
    samples. The title is the names of all methods if none is given.
    """
    files = score_files.find_or_name(paths)
    firsts: dict[str, tuple[Path, Scores]] = {}  # by protocol
    made = []
    for one in files:
        scores = load(one.path)
        if not one.has_repeats:
            path, first = firsts.setdefault(one.protocol, (one.path, scores))
            both = str(path), str(one.path)
            in_order_of(scores, first, caller="report", names=both)
        run = _made(one.path, scores, one.method, None, load)
        # Inner misleads without Halfpoint (OSR003), which needs a threshold.
        values = {key: v for key, v in run.values.items() if key != "inner_score"}
        repeat = (one.repeat, one.seed)
        made.append(replace(run, protocol=one.protocol, repeat=repeat, values=values))
    names = dict.fromkeys(one.method for one in files)
    return ReportData(title=title or ", ".join(names), runs=tuple(made))


def from_file(
    path: Path,
    method: str,
    threshold: float | None,
    load: Callable[[Path], Scores] = Scores.load,
) -> Run:
    """Read a file of scores and compute its metrics."""
    return _made(path, load(path), method, threshold, load)


def _made(
    path: Path,
    scores: Scores,
    method: str,
    threshold: float | None,
    load: Callable[[Path], Scores],
) -> Run:
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
