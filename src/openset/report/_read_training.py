"""Read training runs: their scores, class names and learning curves."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openset.report._read_json import read_json
from openset.report._read_scores import from_folder
from openset.report._runs import ReportData, Run

_SPLIT_AND_SEED = re.compile(r"split(\d+)-seed(\d+)")


def trained_folders(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return the finished runs of ``openset train`` with their split and seed."""
    if (folder / "trained.json").exists():
        return {folder: (0, 0)}
    found = {}
    for path in sorted(folder.glob("split*-seed*/trained.json")):
        name = _SPLIT_AND_SEED.fullmatch(path.parent.name)
        if name is not None:
            found[path.parent] = (int(name[1]), int(name[2]))
    return dict(sorted(found.items(), key=lambda item: item[1]))


def from_training(
    folder: Path, trained: Mapping[Path, tuple[int, int]], headline: str
) -> ReportData:
    """Read training runs: their scores, class names and learning curves."""
    made: list[Run] = []
    for path, repeat in trained.items():
        record = read_json(path / "trained.json")
        spec = record.get("spec", {})
        protocol = spec.get("protocol")
        classes = protocol.get("known", ()) if isinstance(protocol, Mapping) else ()
        for run in from_folder(path, {}, headline).runs:
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
