"""Data sets of the Hugging Face hub, by name."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _io
from openset.datasets import _inputs
from openset.datasets._dataset import Dataset, consecutive

_PARTS = {
    "train": "train",
    "validation": "validation",
    "val": "validation",
    "test": "test",
}
_TEXT, _IMAGE, _CLASS = "string", "Image", "ClassLabel"


@dataclass(frozen=True, eq=False)
class HubImages:
    """The image column of one split, decoded image by image."""

    split: Any
    column: str

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        return np.asarray(self.split[int(index)][self.column].convert("RGB"))

    def take(self, rows: NDArray[np.int64]) -> _inputs.Picked:
        """Return the images that `rows` selects."""
        return _inputs.Picked(self, rows)


def from_hub(
    path: str,
    *,
    inputs: str | None = None,
    labels: str | None = None,
    offline: bool = False,
) -> Dataset:
    """Load a data set of the hub (extra ``hub``); remote code is never run.

    Parameters
    ----------
    path
        ``owner/name``, as on the hub.
    inputs, labels
        Columns; left out, the only image or text column and the only class column.
    offline
        Use only what is already in the hub's own cache.
    """
    hub = _io.optional("datasets.load", "datasets", name="hub")
    config = hub.DownloadConfig(local_files_only=True) if offline else None
    splits = hub.load_dataset(path, download_config=config)
    parts = {_PARTS[key]: splits[key] for key in splits if key in _PARTS}
    if not parts:
        msg = (
            f"datasets.load: {path} must have a train, validation or test split, got "
            f"{', '.join(splits)}"
        )
        raise ValueError(msg)
    features = next(iter(parts.values())).features
    label = labels or _only(path, features, (_CLASS,), "labels")
    column = inputs or _only(path, features, (_IMAGE, _TEXT), "inputs")
    for name in (label, column):
        if name not in features:
            have = list(features)
            _check.one_of("datasets.load", f"column of {path}", name, have)
    is_image = _type(features[column]) == _IMAGE
    values = [
        HubImages(split, column)
        if is_image
        else np.array(list(split[column]), dtype=np.str_)
        for split in parts.values()
    ]
    numbers = [
        np.asarray(list(split[label]), dtype=np.int64) for split in parts.values()
    ]
    return Dataset(
        inputs=_inputs.join("datasets.load", values),
        labels=np.concatenate(numbers),
        classes=tuple(features[label].names),
        kind="image" if is_image else "text",
        name=path,
        parts=consecutive({part: len(split) for part, split in parts.items()}),
    )


def _type(feature: Any) -> str:
    """Name of a column's type: text columns are Value("string")."""
    name = type(feature).__name__
    return str(feature.dtype) if name == "Value" else name


def _only(path: str, features: Any, types: tuple[str, ...], argument: str) -> str:
    found = [name for name, feature in features.items() if _type(feature) in types]
    if len(found) != 1:
        msg = (
            f"datasets.load: {path} must have one column of type {' or '.join(types)}, "
            f"got {found or 'none'} among {list(features)}. Say which: {argument}='…'"
        )
        raise ValueError(msg)
    return found[0]
