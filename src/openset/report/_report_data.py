"""Read the data of a report: folders of studies or training, or files of scores."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from openset import score_files
from openset.report._headings import Headings
from openset.report._read_cells import from_cells
from openset.report._read_json import read_json
from openset.report._read_scores import from_file, from_folder, from_pattern
from openset.report._read_training import from_training, trained_folders
from openset.report._runs import HEADLINE, ReportData
from openset.scores import Scores


def read(
    path: str | Path,
    *,
    threshold: float | None = None,
    columns: Mapping[str, str] | None = None,
    unknown_label: str | int | None = None,
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
        return from_pattern(path, load)
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
        return replace(found, title=title, headings=Headings(settings.get("metrics")))
    if not path.exists():
        msg = f"report: no such file or folder: {path}"
        raise FileNotFoundError(msg)
    run = from_file(path, path.stem, threshold, load)
    return ReportData(title=path.name, runs=(run,))
