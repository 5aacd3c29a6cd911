"""Data sets of the Hugging Face library: by name, from a folder or from a file."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _extras
from openset._types import ArtefactError
from openset.datasets import _download, lazy_inputs
from openset.datasets._dataset import Dataset, consecutive

_PARTS = {
    "train": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
}
_SAVED = ("dataset_dict.json", "state.json")  # what save_to_disk leaves in a folder
_FILES = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".parquet": "parquet",
}
_IMAGE, _CLASS = "Image", "ClassLabel"
_TEXT = ("string", "large_string", "string_view")
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
            found = self.split[int(index)][self.column]
            rgb = None if found is None else lazy_inputs.converted(found)
            pixels = None if rgb is None else np.asarray(rgb)
        except (OSError, SyntaxError, ValueError) as error:
            msg = f"datasets: image {index} of {self.name} is damaged ({error})"
            raise ArtefactError(msg) from error
        if pixels is None:
            msg = f"datasets: image {index} of {self.name} is missing"
            raise ArtefactError(msg)
        return pixels

    def take(self, rows: NDArray[np.int64]) -> lazy_inputs.Picked:
        """Return the images that `rows` selects."""
        return lazy_inputs.Picked(self, rows)


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
        Use only what is already in the cache of the hub.

    Notes
    -----
    Splits called train, validation (val, valid, dev) and test become parts; others,
    and those without labels (all -1), are left out, and `Dataset.note` says so. Images
    are RGB, whatever the file has.
    """
    hub = _extras.optional("datasets.load", "datasets", name="hub")
    with _reading(hub, path, offline=offline):
        splits = _splits(hub, path, config)
    parts, left_out = _parts(path, splits)
    features = next(iter(parts.values())).features
    label = labels or _label_column(path, features)
    columns = _input_columns(path, features, inputs, label)
    for name in (label, *columns):
        if name not in features:
            _check.one_of("datasets.load", f"column of {path}", name, list(features))
    found = {part: _labels(path, split, label) for part, split in parts.items()}
    if _type(features[label]) == _CLASS:
        empty = [part for part, numbers in found.items() if (numbers == -1).all()]
        left_out += [f"{part} (no labels)" for part in empty]
        found = {part: numbers for part, numbers in found.items() if part not in empty}
    if not found:
        msg = f"datasets.load: {path} must have labels in {label!r}, got none"
        raise ValueError(msg)
    numbers, classes = _numbered(path, label, features[label], list(found.values()))
    kind = _kind(path, features, columns)
    values = [_values(hub, path, parts[part], columns, kind) for part in found]
    is_whole = set(found) == {""}
    return Dataset(
        inputs=lazy_inputs.join("datasets.load", values),
        labels=numbers,
        classes=classes,
        kind=kind,
        name=_name(path),
        parts={}
        if is_whole
        else consecutive({part: len(n) for part, n in found.items()}),
        note=f"left out: {', '.join(left_out)}" if left_out else "",
    )


def _name(path: str) -> str:
    local = Path(path)
    if not local.exists():
        return path
    return local.resolve().stem if local.is_file() else local.resolve().name


def _splits(hub: Any, path: str, config: str | None) -> Mapping[str, Any]:
    """Return splits by name; "" is the name of samples without any."""
    local = Path(path)
    if local.is_dir() and is_saved(local):
        found = hub.load_from_disk(str(local))
    elif local.is_file():
        builder = _FILES.get(local.suffix.lower())
        if builder is None:
            rule = f"one of {', '.join(_FILES)}"
            got = repr(local.suffix)
            msg = _check.must(
                rule, caller="datasets.load", name=f"ending of {path}", got=got
            )
            raise _PlainError(msg)
        files = {"train": str(local)}
        found = hub.load_dataset(builder, config, data_files=files)["train"]
    else:
        found = hub.load_dataset(str(local) if local.is_dir() else path, config)
    return found if isinstance(found, Mapping) else {"": found}


class _PlainError(ValueError):
    """An error that already names the path."""


@contextmanager
def _reading(hub: Any, path: str, *, offline: bool) -> Iterator[None]:
    """Forbid downloads if asked to, and name the path in errors of the library."""
    settings = hub.config
    # The library asks its settings before each request; no argument of load_dataset
    # keeps it from asking the hub for the newest version.
    switches = [
        name
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
        if hasattr(settings, name)
    ]
    before = {name: getattr(settings, name) for name in switches}
    for name in switches if offline else ():
        setattr(settings, name, True)
    is_local = Path(path).exists()
    try:
        yield
    except _PlainError:
        raise
    except (ConnectionError, FileNotFoundError) as error:
        if is_local:
            raise _damaged(path, error) from error
        if not offline:
            raise
        msg = (
            f"datasets.load: 'hf:{path}' is neither a folder here nor in the cache of "
            f"the Hugging Face hub, and downloads are switched off (offline=True or "
            f"{_download.OFFLINE}=1). Load it once with downloads, or put a copy made "
            f"by save_to_disk into\n  {path}"
        )
        raise FileNotFoundError(msg) from error
    except Exception as error:
        # Whatever a reader of some format raises about a damaged file.
        if is_local:
            raise _damaged(path, error) from error
        raise
    finally:
        for name, value in before.items():
            setattr(settings, name, value)


def _damaged(path: str, error: Exception) -> ArtefactError:
    cause = error.__cause__ or error
    return ArtefactError(
        f"datasets: {path} is damaged or not a Hugging Face data set ({cause})"
    )


def _parts(path: str, splits: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    if set(splits) == {""}:
        return dict(splits), []
    parts: dict[str, Any] = {}
    left_out = []
    for name, split in splits.items():
        part = _PARTS.get(str(name))
        if part is None or part in parts or len(split) == 0:
            left_out.append(str(name))
        else:
            parts[part] = split
    if not parts:
        msg = (
            f"datasets.load: {path} must have a train, validation or test split with "
            f"samples, got {', '.join(map(str, splits)) or 'none'}"
        )
        raise ValueError(msg)
    return parts, left_out


def _type(feature: Any) -> str:
    """Name of a column's type: "text", "number", "vector", or the library's name."""
    name = type(feature).__name__
    if name == "Value":
        dtype = str(feature.dtype)
        if dtype in _TEXT:
            return "text"
        is_number = dtype.startswith(("int", "uint", "float", "bool"))
        return "number" if is_number else dtype
    inner = getattr(feature, "feature", None)
    return "vector" if inner is not None and _type(inner) == "number" else name


def _of_type(features: Any, *types: str, without: str = "") -> list[str]:
    return [c for c in features if c != without and _type(features[c]) in types]


def _label_column(path: str, features: Any) -> str:
    found = _of_type(features, _CLASS)
    if not found:
        usual = _of_type(features, "text", "number")
        found = [name for name in usual if name.lower() in _LABELS]
    if len(found) != 1:
        raise ValueError(_which(path, "class column", found, features, "labels"))
    return found[0]


def _input_columns(
    path: str, features: Any, inputs: str | Sequence[str] | None, label: str
) -> list[str]:
    if inputs is not None:
        return [inputs] if isinstance(inputs, str) else list(inputs)
    for kind in (_IMAGE, "text", "vector"):
        found = _of_type(features, kind, without=label)
        if len(found) == 1:
            return found
        if found:
            what = f"{kind.lower()} column"
            raise ValueError(_which(path, what, found, features, "inputs"))
    found = _of_type(features, "number", without=label)
    if not found:
        what = "column of images, texts or numbers"
        raise ValueError(_which(path, what, found, features, "inputs"))
    return found


def _which(path: str, what: str, found: list[str], features: Any, option: str) -> str:
    return (
        f"datasets.load: {path} must have one {what}, got {found or 'none'} among "
        f"{list(features)}. Name it with {option}='…'"
    )


def _kind(path: str, features: Any, columns: Sequence[str]) -> str:
    types = {_type(features[column]) for column in columns}
    if types == {_IMAGE} and len(columns) == 1:
        return "image"
    if types == {"text"} and len(columns) == 1:
        return "text"
    if types == {"number"} or (types == {"vector"} and len(columns) == 1):
        return "table"
    shown = ", ".join(f"{c} ({_type(features[c])})" for c in columns)
    msg = _check.must(
        "one column of images, texts or vectors, or columns of numbers",
        caller="datasets.load",
        name=f"inputs of {path}",
        got=shown or "none",
    )
    raise ValueError(msg)


def _column(path: str, split: Any, name: str, what: str) -> Any:
    """Return a column as an Arrow array; refuse missing values."""
    # Arrow keeps every bit; the library's NumPy format makes float32 of float64.
    column = split.select_columns([name]).with_format("arrow")[:][name]
    if column.null_count:
        msg = (
            f"datasets.load: {path} must have a {what} in {name!r} for every sample, "
            f"got {column.null_count} without. Filter them out first"
        )
        raise ValueError(msg)
    return column


def _labels(path: str, split: Any, name: str) -> NDArray[Any]:
    return np.asarray(_column(path, split, name, "class").to_pylist())


def _numbered(
    path: str, column: str, feature: Any, found: list[NDArray[Any]]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    labels = np.concatenate(found)
    if _type(feature) == _CLASS:
        n_missing = int((labels < 0).sum())
        if n_missing:
            msg = (
                f"datasets.load: {path} must have a class in {column!r} for every "
                f"sample, got {n_missing} labels -1. Filter them out first"
            )
            raise ValueError(msg)
        return labels.astype(np.int64), tuple(feature.names)
    if _type(feature) not in ("text", "number") or labels.dtype.kind == "f":
        got = f"{_type(feature)}, dtype {labels.dtype}"
        msg = _check.must(
            "class names or numbers",
            caller="datasets.load",
            name=f"column {column!r} of {path}",
            got=got,
        )
        raise TypeError(msg)
    # Numbers in numerical order, names in code-point order.
    classes, numbers = np.unique(labels, return_inverse=True)
    return numbers.astype(np.int64), tuple(str(c) for c in classes.tolist())


def _values(hub: Any, path: str, split: Any, columns: Sequence[str], kind: str) -> Any:
    if kind == "image":
        if not split.features[columns[0]].decode:
            split = split.cast_column(columns[0], hub.Image())
        return HubImages(split, columns[0], path)
    if kind == "text":
        texts = _column(path, split, columns[0], "text").to_pylist()
        return np.array(texts, dtype=np.str_)
    if _type(split.features[columns[0]]) == "vector":
        return _vectors(path, split, columns[0])
    table = [_column(path, split, c, "number").to_numpy() for c in columns]
    return np.column_stack(table).astype(np.result_type(*table, np.float32))


def _vectors(path: str, split: Any, name: str) -> NDArray[Any]:
    rows = _column(path, split, name, "vector").to_pylist()
    try:
        table = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = (
            f"datasets.load: {path} must have vectors of one length in {name!r}, got "
            f"others ({error})"
        )
        raise ValueError(msg) from error
    return table.reshape(len(rows), -1)
