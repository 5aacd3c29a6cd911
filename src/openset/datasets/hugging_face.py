"""Data sets of the Hugging Face library: by name, from a folder or from a file."""

from collections.abc import Mapping, Sequence
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
_FILES = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}
_IMAGE, _CLASS = "Image", "ClassLabel"
_KINDS = {_IMAGE: "image", "text": "text", "vector": "table", "number": "table"}
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
    inputs: str | Sequence[str] | None = None,
    labels: str | None = None,
    config: str | None = None,
    offline: bool = False,
) -> Dataset:
    """Load a Hugging Face data set (extra ``hub``) without running code of its own.

    Parameters
    ----------
    path
        ``owner/name`` as on the hub; a folder that ``save_to_disk`` wrote or that has
        the form of a hub repository; or one .csv, .json, .jsonl or .parquet file.
    inputs
        The input column, or several columns of numbers. Default: the only image column,
        else the only text column, else all columns of numbers.
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
    types = {name: _type(one) for name, one in features.items()}
    label = labels or _label_column(path, types)
    columns = [inputs] if isinstance(inputs, str) else list(inputs or ())
    columns = columns or _input_columns(path, types, label)
    for name in (label, *columns):
        _check.one_of("datasets.load", f"column of {path}", name, list(types))
    found = {part: _column(path, split, label) for part, split in parts.items()}
    if types[label] == _CLASS:
        found = {part: y for part, y in found.items() if (y != -1).any()}
    numbers, classes = _numbered(path, label, features[label], list(found.values()))
    kind = _KINDS.get(" ".join({types[one] for one in columns}), "")
    if not kind or (kind != "table" and len(columns) > 1):
        rule = "one column of images, texts or vectors, or columns of numbers"
        _refuse(path, rule, ", ".join(f"{one} ({types[one]})" for one in columns))
    values = [_values(path, parts[part], columns, kind) for part in found]
    local = Path(path).resolve()
    local_name = local.stem if local.is_file() else local.name
    return Dataset(
        inputs=lazy_inputs.join("datasets.load", values),
        labels=numbers,
        classes=classes,
        kind=kind,
        name=local_name if local.exists() else path,
        parts={} if "" in found else consecutive({p: len(y) for p, y in found.items()}),
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
    if local.is_file():
        _check.ending("datasets.load", local, list(_FILES))
    try:
        if is_saved(local):
            found = hub.load_from_disk(path)
        elif local.is_file():
            builder, files = _FILES[local.suffix], {"train": path}
            found = hub.load_dataset(builder, config, data_files=files)["train"]
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
    """Name of a column's type: "text", "number", "vector", or the library's name."""
    name, dtype = type(feature).__name__, str(getattr(feature, "dtype", ""))
    if name == "Value":
        is_number = dtype.startswith(("int", "uint", "float", "bool"))
        return "text" if "string" in dtype else "number" if is_number else dtype
    inner = getattr(feature, "feature", None)
    return "vector" if inner is not None and _type(inner) == "number" else name


def _label_column(path: str, types: Mapping[str, str]) -> str:
    found = [one for one, kind in types.items() if kind == _CLASS]
    usual = [one for one in types if one.lower() in _LABELS]
    usual = [one for one in usual if types[one] in ("text", "number")]
    return _only(path, "class column", found or usual, types, "labels")


def _input_columns(path: str, types: Mapping[str, str], label: str) -> list[str]:
    for kind in (_IMAGE, "text", "vector", "number"):
        found = [one for one in types if types[one] == kind and one != label]
        if found and kind != "number":
            _only(path, f"{kind.lower()} column", found, types, "inputs")
        if found:
            return found
    return [_only(path, "column of images, texts or numbers", [], types, "inputs")]


def _only(path: str, what: str, found: list[str], types: Any, option: str) -> str:
    if len(found) != 1:
        got = f"{found or 'none'} among {list(types)}"
        _refuse(path, f"one {what}", got, f"Name it with {option}='…'")
    return found[0]


def _column(path: str, split: Any, name: str) -> NDArray[Any]:
    # Arrow keeps every bit; the library's NumPy format makes float32 of float64.
    column = split.select_columns([name]).with_format("arrow")[:][name]
    if column.null_count:
        rule, got = f"a value in {name!r} for every sample", column.null_count
        _refuse(path, rule, f"{got} without", "Filter them out first")
    kind = _type(split.features[name])
    if kind in ("number", _CLASS):
        return np.asarray(column.to_numpy())
    return np.array(column.to_pylist(), np.float64 if kind == "vector" else np.str_)


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


def _values(path: str, split: Any, columns: Sequence[str], kind: str) -> Any:
    feature = split.features[columns[0]]
    if kind == "image":
        if not feature.decode:
            split = split.cast_column(columns[0], type(feature)())
        return HubImages(split, columns[0], path)
    found = [_column(path, split, one) for one in columns]
    if kind == "text":
        return found[0]
    return np.column_stack(found).astype(np.result_type(*found, np.float32))
