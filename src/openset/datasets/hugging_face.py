"""Images and texts of the Hugging Face library: by name, or from a folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from openset import _check, _optional
from openset._types import ArtefactError
from openset.datasets import lazy_inputs
from openset.datasets.dataset import Dataset, consecutive
from openset.datasets.places import OFFLINE

_PARTS = {p: p for p in ("", "train", "validation", "test")} | dict.fromkeys(
    ("valid", "val", "dev"), "validation"
)
_SAVED = ("dataset_dict.json", "state.json")  # what save_to_disk leaves in a folder
_IMAGE, _CLASS = "Image", "ClassLabel"
_LABELS = ("label", "labels", "class", "category", "intent", "target")


@dataclass(frozen=True, eq=False)
class HubImages:
    """The image column of one split, decoded image by image."""

    split: Any
    column: str
    name: str = ""

    def __len__(self) -> int:
        return len(self.split)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        try:
            image = self.split[int(index)][self.column]
            return np.asarray(lazy_inputs.converted(image))
        except (AttributeError, OSError, SyntaxError, ValueError) as error:
            why = f"is missing or damaged ({error})"
            msg = f"datasets: image {index} of {self.name} {why}"
            raise ArtefactError(msg) from error

    def take(self, rows: NDArray[np.int64]) -> lazy_inputs.Joined:
        """Return the images that `rows` selects."""
        return lazy_inputs.Joined((self,), rows)


def is_saved(folder: Path) -> bool:
    """Return whether ``save_to_disk`` of the Hugging Face library wrote this folder."""
    return any((folder / name).is_file() for name in _SAVED)


def from_hub(
    path: str,
    *,
    inputs: str | None = None,
    labels: str | None = None,
    config: str | None = None,
    offline: bool = False,
) -> Dataset:
    """Load images or texts of Hugging Face (extra ``hub``), running no code of theirs.

    Parameters
    ----------
    path
        ``owner/name`` as on the hub; or a folder that ``save_to_disk`` wrote or that
        has the form of a hub repository.
    inputs
        The input column. Default: the only image column, else the only text column.
    labels
        The class column. Default: the only one of type ``ClassLabel``, else the only
        one with a usual name (label, class, category, intent, target).
    config
        Name of the configuration, if the data set has several.
    offline
        Ask nobody: read only what is here.

    Notes
    -----
    Splits called train, validation (val, valid, dev) and test become parts; others,
    and those without labels (all -1), are left out. Images are RGB, whatever the file
    has.
    """
    splits = _splits(path, config, offline=offline)
    parts: dict[str, Any] = {}
    for name, split in splits.items():
        if str(name) in _PARTS and len(split):
            parts.setdefault(_PARTS[str(name)], split)
    if not parts:
        rule = "samples in a train, validation or test split"
        _refuse(path, rule, ", ".join(map(str, splits)))
    features = next(iter(parts.values())).features
    label = labels or _label_column(path, features)
    column = inputs or _input_column(path, features, label)
    for name in (label, column):
        _check.one_of("datasets.load", f"column of {path}", name, list(features))
    found = {part: _column(path, split, label) for part, split in parts.items()}
    if _type(features[label]) == _CLASS:
        found = {part: y for part, y in found.items() if (y != -1).any()}
    numbers, classes = _numbered(path, label, features[label], list(found.values()))
    if (kind := _type(features[column]).lower()) not in {"image", "text"}:
        _refuse(path, f"images or texts in {column!r}", kind)
    read = _images if kind == "image" else _column
    local = Path(path).resolve()
    return Dataset(
        inputs=lazy_inputs.join(
            "datasets.load", [read(path, parts[part], column) for part in found]
        ),
        labels=numbers,
        classes=classes,
        kind=kind,
        name=local.name if local.exists() else path,
        parts=consecutive({part: len(y) for part, y in found.items()}),
    )


def _refuse(path: str, rule: str, got: object, remedy: str = "") -> NoReturn:
    _check.fail("datasets.load", path, f"a data set with {rule}", got, remedy)


def _splits(path: str, config: str | None, *, offline: bool) -> Mapping[str, Any]:
    """Return splits by name; "" is the name of samples without any."""
    hub, local = _optional.optional("datasets", "hub"), Path(path)
    if not local.exists() and offline and not hub.config.HF_HUB_OFFLINE:
        msg = (
            f"datasets.load: 'hf:{path}' is no folder here, and downloads are off "
            f"(offline=True or {OFFLINE}=1). Put a copy made by save_to_disk there, "
            "or set HF_HUB_OFFLINE=1, to read the library's own cache"
        )
        raise FileNotFoundError(msg)
    try:
        if is_saved(local):
            found = hub.load_from_disk(path)
        else:
            found = hub.load_dataset(path, config)
    except Exception as error:  # whatever a reader of some format raises
        if not local.exists():
            raise
        why = error.__cause__ or error
        msg = f"datasets: {path} is damaged or not a Hugging Face data set ({why})"
        raise ArtefactError(msg) from error
    return found if isinstance(found, Mapping) else {"": found}


def _type(feature: Any) -> str:
    """Name of a column's type: "text", "number", or as in the library."""
    name, dtype = type(feature).__name__, str(getattr(feature, "dtype", ""))
    if name != "Value":
        return name
    return "text" if "string" in dtype else "number"


def _label_column(path: str, features: Mapping[str, Any]) -> str:
    found = [one for one, feature in features.items() if _type(feature) == _CLASS]
    usual = [one for one in features if one.lower() in _LABELS]
    usual = [one for one in usual if _type(features[one]) in ("text", "number")]
    return _only(path, "class column", found or usual, features, "labels")


def _input_column(path: str, features: Mapping[str, Any], label: str) -> str:
    others = {one: _type(feature) for one, feature in features.items() if one != label}
    found = [one for one, kind in others.items() if kind == _IMAGE]
    found = found or [one for one, kind in others.items() if kind == "text"]
    return _only(path, "column of images or texts", found, features, "inputs")


def _only(path: str, what: str, found: list[str], types: Any, option: str) -> str:
    if len(found) != 1:
        got = f"{found or 'none'} among {list(types)}"
        _refuse(path, f"one {what}", got, f"Name it with {option}='…'")
    return found[0]


def _column(path: str, split: Any, name: str) -> NDArray[Any]:
    column = split.select_columns([name]).with_format("arrow")[:][name]
    if column.null_count:
        rule, got = f"a value in {name!r} for every sample", column.null_count
        _refuse(path, rule, f"{got} without", "Filter them out first")
    if _type(split.features[name]) == "text":
        return np.array(column.to_pylist(), np.str_)
    return np.asarray(column.to_numpy())


def _numbered(
    path: str, column: str, feature: Any, found: list[NDArray[Any]]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    labels = np.concatenate(found) if found else np.array([-1])
    if _type(feature) == _CLASS:
        if n_missing := int((labels < 0).sum()):
            rule = f"a class in {column!r} for every sample"
            _refuse(path, rule, f"{n_missing} labels -1", "Filter them out first")
        return labels.astype(np.int64), tuple(feature.names)
    if _type(feature) not in ("text", "number") or labels.dtype.kind == "f":
        rule, got = f"class names or numbers in {column!r}", f"dtype {labels.dtype}"
        _check.fail("datasets.load", path, rule, got, error=TypeError)
    # Numbers in numerical order, names in code-point order.
    classes, numbers = np.unique(labels, return_inverse=True)
    return numbers.astype(np.int64), tuple(str(c) for c in classes.tolist())


def _images(path: str, split: Any, name: str) -> HubImages:
    feature = split.features[name]
    if not feature.decode:
        split = split.cast_column(name, type(feature)())
    return HubImages(split, name, path)
