"""Readers of the text sets: CLINC150 and BANKING77."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from openset import _check
from openset._types import UNKNOWN, ArtefactError
from openset.datasets._compact_copies import content
from openset.datasets._dataset import PART_NAMES, Dataset, consecutive
from openset.datasets._dataset_folder import DatasetFolder, reading

Pairs = list[tuple[str, str]]  # (text, class name)

_CLINC = "https://raw.githubusercontent.com/clinc/oos-eval/master/data/"
_BANKING = (
    "https://raw.githubusercontent.com/PolyAI-LDN/task-specific-datasets/master/"
    "banking_data/"
)
CLINC150 = "data_full.json"
BANKING77 = ("train.csv", "test.csv")
SOURCES = {"clinc150": _CLINC, "banking77": _BANKING}

_OUTSIDE = "oos"


def from_pairs(
    parts: dict[str, Pairs], *, name: str, unlisted: str = "", note: str = ""
) -> Dataset:
    """Build a data set from (text, class) pairs; classes in code-point order."""
    classes = sorted({c for pairs in parts.values() for _, c in pairs} - {unlisted})
    number = {c: i for i, c in enumerate(classes)} | {unlisted: UNKNOWN}
    pairs = [pair for part in parts.values() for pair in part]
    return Dataset(
        inputs=np.array([text for text, _ in pairs], dtype=np.str_),
        labels=np.array([number[c] for _, c in pairs], dtype=np.int64),
        classes=tuple(classes),
        kind="text",
        name=name,
        parts=consecutive({part: len(found) for part, found in parts.items()}),
        unlisted=unlisted,
        note=note,
    )


def from_csv(path: Path) -> Dataset:
    """Read a ``.csv`` or ``.tsv`` with the columns text, label and perhaps part."""
    caller = "datasets.load"
    delimiter = "\t" if path.suffix == ".tsv" else ","
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(stream, delimiter=delimiter))
    except (UnicodeDecodeError, csv.Error) as error:
        msg = f"{caller}: {path} must be a table in UTF-8, got {error}"
        raise ArtefactError(msg) from error
    columns = [name for name in rows[0] if name is not None] if rows else []
    if not {"text", "label"} <= set(columns):
        msg = _check.must(
            "a table of texts with the columns text and label, and perhaps part (train "
            "or test)",
            caller=caller,
            name=str(path),
            got=f"the columns {', '.join(map(str, columns))}" if columns else "no rows",
        )
        raise ArtefactError(msg)
    for number, row in enumerate(rows, start=2):
        if not row["text"] or not row["label"]:
            msg = f"{caller}: {path} must have a text and a label in line {number}"
            raise ArtefactError(msg)
        if None in row:  # a comma in the text would move the label
            msg = (
                f"{caller}: {path} must have {len(columns)} columns in every row, got "
                f"more in row {number}. Put a text with a {delimiter!r} in it in quotes"
            )
            raise ArtefactError(msg)
    if "part" not in columns:
        pairs = [(row["text"], row["label"]) for row in rows]
        return replace(from_pairs({"train": pairs}, name=path.stem), parts={})
    parts: dict[str, Pairs] = {}
    for row in rows:
        _check.one_of(caller, f"part in {path}", row["part"], PART_NAMES)
        parts.setdefault(row["part"], []).append((row["text"], row["label"]))
    return from_pairs(parts, name=path.stem)


def clinc150(place: DatasetFolder) -> Dataset:
    """Read CLINC150 from the official ``data_full.json``."""
    path = _by_hand(place, CLINC150)
    return _clinc("clinc150", path, _json(path))


def packaged_clinc150(name: str, path: Path) -> Dataset:
    """Read CLINC150 from its compact file."""
    with reading(path, "CLINC150"):
        full = _json(path)["data_full"]
    return _clinc(name, path, full)


def _clinc(name: str, path: Path, full: Any) -> Dataset:
    with reading(path, "CLINC150"):
        parts = {
            part: [(str(t), str(c)) for key in keys for t, c in full[key]]
            for part, keys in (
                ("train", ("train", "oos_train")),
                ("validation", ("val", "oos_val")),
                ("test", ("test", "oos_test")),
            )
        }
    note = "label -1: out of scope; name it 'oos' in a protocol"
    return from_pairs(parts, name=name, unlisted=_OUTSIDE, note=note)


def banking77(place: DatasetFolder) -> Dataset:
    """Read BANKING77 from the official ``train.csv`` and ``test.csv``."""
    parts = {}
    for part, file in zip(("train", "test"), BANKING77, strict=True):
        path = _by_hand(place, file)
        with (
            reading(path, "a table of text and category"),
            path.open(encoding="utf-8", newline="") as stream,
        ):
            rows = list(csv.DictReader(stream))
            parts[part] = [(str(r["text"]), str(r["category"])) for r in rows]
    return from_pairs(parts, name="banking77")


def packaged_banking77(name: str, path: Path) -> Dataset:
    """Read BANKING77 from its compact file."""
    pairs = _json(path)
    with reading(path, "BANKING77"):
        parts = {
            part: [(str(t), str(c)) for t, c in pairs[part]]
            for part in ("train", "test")
        }
    return from_pairs(parts, name=name)


def _json(path: Path) -> Any:
    with reading(path, "a JSON file"):
        return json.loads(content(path))


def _by_hand(place: DatasetFolder, name: str) -> Path:
    # Only in the set's own folder: root/train.csv could be anybody's.
    path = place.path / name
    if not path.exists():
        msg = (
            f"datasets.load: {place.name!r} is not under {place.root}. Put\n  {path}"
            f"  from {SOURCES[place.name]}{name}"
        )
        raise FileNotFoundError(msg)
    return path
