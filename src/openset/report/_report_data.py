"""Read the data of a report: folders of studies or training, or files of scores."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from openset import _check
from openset.report._headings import Headings
from openset.report._read_cells import from_cells
from openset.report._read_json import read_json
from openset.report._read_scores import from_file, from_files, from_folder
from openset.report._read_training import from_training, trained_folders
from openset.report._runs import HEADLINE, ReportData
from openset.scores import Scores
from openset.stats import score_files


def read(
    source: str | Path | Sequence[str | Path],
    *,
    threshold: float | None = None,
    columns: Mapping[str, str] | None = None,
    unknown_label: str | int | None = None,
    higher_is_unknown: bool = False,
) -> ReportData:
    """Read a folder of a study, of training or of scores, or files of scores."""
    given = [source] if isinstance(source, str | Path) else source
    paths = [Path(one) for one in given]
    load = partial(
        Scores.load,
        columns=columns,
        unknown_label=unknown_label,
        higher_is_unknown=higher_is_unknown,
    )
    for path in paths:  # before anything else is said about them
        if not path.exists() and not score_files.is_pattern(path):
            msg = f"report: no such file or folder: {path}"
            raise FileNotFoundError(msg)
    if len(paths) != 1 or score_files.is_pattern(paths[0]):
        return _several(paths, threshold, load)
    path = paths[0]
    if path.is_dir():
        if threshold is not None:
            msg = (
                "report: threshold must be given with one file of scores only, got a "
                "folder. Its thresholds are in cells/ or in study.json"
            )
            raise ValueError(msg)
        settings = read_json(path / "study.json")
        headline = str(settings.get("headline") or HEADLINE)
        title = str(settings.get("name") or path.resolve().name)
        if (path / "cells").is_dir():
            found = from_cells(path, headline)
        elif trained := trained_folders(path):
            found = from_training(path, trained, headline)
        else:
            found = from_folder(path, settings, headline)
        headings = Headings(settings.get("metrics"))
        headings.name_alphas({run.alpha for run in found.runs})
        return replace(found, title=title, headings=headings)
    run = from_file(path, path.stem, threshold, load)
    return ReportData(title=path.name, runs=(run,))


def _several(
    paths: Sequence[Path], threshold: float | None, load: Callable[[Path], Scores]
) -> ReportData:
    is_one = len(paths) == 1
    if threshold is not None:
        what = f"a pattern, {paths[0]}" if is_one else f"{len(paths)} sources"
        msg = (
            f"report: threshold must be given with one file of scores only, got {what}"
        )
        raise ValueError(msg)
    folders = [path for path in paths if path.is_dir()]
    if folders or not paths:
        msg = _check.must(
            "one folder, or files of scores",
            caller="report",
            name="source",
            got=f"the folder {folders[0]} and others" if folders else "nothing",
            remedy="Name the files in the folder",
        )
        raise ValueError(msg)
    return from_files(paths, load, title=str(paths[0]) if is_one else "")
