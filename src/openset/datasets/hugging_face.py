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

_PARTS = {p: p for p in ("train", "validation", "test")} | dict.fromkeys(
    ("valid", "val", "dev"), "validation"
)
_SAVED = ("dataset_dict.json", "state.json")  # what save_to_disk leaves in a folder
_FILES = {".csv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}
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
        image = f"datasets: image {index} of {self.name}"
        try:
            found = self.split[int(index)][self.column]
            pixels = None if found is None else lazy_inputs.converted(found)
            if pixels is not None:
                return np.asarray(pixels)
        except (OSError, SyntaxError, ValueError) as error:
            msg = f"{image} is damaged ({error})"
            raise ArtefactError(msg) from error
        msg = f"{image} is missing"
        raise ArtefactError(msg)

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
        Ask nobody: read only what is here.

    Notes
    -----
    Splits called train, validation (val, valid, dev) and test become parts; others,
    and those without labels (all -1), are left out, and `Dataset.note` says so. Images
    are RGB, whatever the file has.
    """
    parts, left_out = _parts(path, _splits(path, config, offline=offline))
    features = next(iter(parts.values())).features
    label = labels or _label_column(path, features)
    columns = [inputs] if isinstance(inputs, str) else list(inputs or ())
    columns = columns or _input_columns(path, features, label)
    for name in (label, *columns):
        _check.one_of("datasets.load", f"column of {path}", name, list(features))
    found = {part: _labels(path, split, label) for part, split in parts.items()}
    if _type(features[label]) == _CLASS:
        empty = [part for part, numbers in found.items() if (numbers == -1).all()]
        left_out += [f"{part} (no labels)" for part in empty]
        found = {part: y for part, y in found.items() if part not in empty}
        if not found:
            _refuse(path, f"classes in {label!r}", "none: all its labels are -1")
    numbers, classes = _numbered(path, label, features[label], list(found.values()))
    kind = _kind(path, features, columns)
    values = [_values(path, parts[part], columns, kind) for part in found]
    sizes = {part: len(y) for part, y in found.items()}
    local = Path(path).resolve()
    return Dataset(
        inputs=lazy_inputs.join("datasets.load", values),
        labels=numbers,
        classes=classes,
        kind=kind,
        name=(local.stem if local.is_file() else local.name)
        if local.exists()
        else path,
        parts={} if "" in sizes else consecutive(sizes),
        note=f"left out: {', '.join(left_out)}" if left_out else "",
    )


def _refuse(path: str, rule: str, got: object, remedy: str = "") -> NoReturn:
    _check.fail("datasets.load", path, f"a data set with {rule}", got, remedy)


def _splits(path: str, config: str | None, *, offline: bool) -> Mapping[str, Any]:
    """Return splits by name; "" is the name of samples without any."""
    hub = _optional.optional("datasets", "hub")
    local = Path(path)
    if not local.exists() and offline and not hub.config.HF_HUB_OFFLINE:
        msg = (
            f"datasets.load: 'hf:{path}' is no folder here, and downloads are switched "
            f"off (offline=True or {OFFLINE}=1). Put a copy made by save_to_disk into\n"
            f"  {path}\nor set HF_HUB_OFFLINE=1, to read the library's own cache"
        )
        raise FileNotFoundError(msg)
    if local.is_file():
        _check.ending("datasets.load", local, list(_FILES))
    try:
        if local.is_dir() and is_saved(local):
            found = hub.load_from_disk(path)
        elif local.is_file():
            builder = _FILES[local.suffix]
            found = hub.load_dataset(builder, config, data_files={"train": path})
            found = found["train"]
        else:
            found = hub.load_dataset(path, config)
    except Exception as error:  # whatever a reader of some format raises
        if not local.exists():
            raise
        why = error.__cause__ or error
        msg = f"datasets: {path} is damaged or not a Hugging Face data set ({why})"
        raise ArtefactError(msg) from error
    return found if isinstance(found, Mapping) else {"": found}


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
        got = ", ".join(map(str, splits)) or "none"
        _refuse(path, "samples in a train, validation or test split", got)
    return parts, left_out


def _type(feature: Any) -> str:
    """Name of a column's type: "text", "number", "vector", or the library's name."""
    name = type(feature).__name__
    if name == "Value":
        dtype = str(feature.dtype)
        if "string" in dtype:
            return "text"
        is_number = dtype.startswith(("int", "uint", "float", "bool"))
        return "number" if is_number else dtype
    inner = getattr(feature, "feature", None)
    return "vector" if inner is not None and _type(inner) == "number" else name


def _label_column(path: str, features: Any) -> str:
    found = [c for c in features if _type(features[c]) == _CLASS] or [
        c
        for c in features
        if c.lower() in _LABELS and _type(features[c]) in ("text", "number")
    ]
    return _only(path, "class column", found, features, "labels")


def _input_columns(path: str, features: Any, label: str) -> list[str]:
    types = {c: _type(features[c]) for c in features if c != label}
    for kind in (_IMAGE, "text", "vector"):
        if found := [c for c, one in types.items() if one == kind]:
            return [_only(path, f"{kind.lower()} column", found, features, "inputs")]
    found = [c for c, one in types.items() if one == "number"]
    what = "column of images, texts or numbers"
    return found or [_only(path, what, found, features, "inputs")]


def _only(path: str, what: str, found: list[str], features: Any, option: str) -> str:
    if len(found) != 1:
        got = f"{found or 'none'} among {list(features)}"
        _refuse(path, f"one {what}", got, f"Name it with {option}='…'")
    return found[0]


def _kind(path: str, features: Any, columns: Sequence[str]) -> str:
    types = {_type(features[column]) for column in columns}
    if len(columns) == 1 and types <= {_IMAGE, "text", "vector"}:
        (only,) = types
        return {_IMAGE: "image", "vector": "table"}.get(only, only)
    if types != {"number"}:
        rule = "one column of images, texts or vectors, or columns of numbers"
        _refuse(path, rule, ", ".join(f"{c} ({_type(features[c])})" for c in columns))
    return "table"


def _column(path: str, split: Any, name: str, what: str) -> Any:
    """Return a column as an Arrow array; refuse missing values."""
    # Arrow keeps every bit; the library's NumPy format makes float32 of float64.
    column = split.select_columns([name]).with_format("arrow")[:][name]
    if column.null_count:
        rule, got = f"a {what} in {name!r} for every sample", f"{column.null_count}"
        _refuse(path, rule, f"{got} without", "Filter them out first")
    return column


def _labels(path: str, split: Any, name: str) -> NDArray[Any]:
    return np.asarray(_column(path, split, name, "class").to_pylist())


def _numbered(
    path: str, column: str, feature: Any, found: list[NDArray[Any]]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    labels = np.concatenate(found)
    if _type(feature) == _CLASS:
        if n_missing := int((labels < 0).sum()):
            rule, got = (
                f"a class in {column!r} for every sample",
                f"{n_missing} labels -1",
            )
            _refuse(path, rule, got, "Filter them out first")
        return labels.astype(np.int64), tuple(feature.names)
    if _type(feature) not in ("text", "number") or labels.dtype.kind == "f":
        rule, got = f"class names or numbers in {column!r}", f"dtype {labels.dtype}"
        _check.fail("datasets.load", path, rule, got, error=TypeError)
    # Numbers in numerical order, names in code-point order.
    classes, numbers = np.unique(labels, return_inverse=True)
    return numbers.astype(np.int64), tuple(str(c) for c in classes.tolist())


def _values(path: str, split: Any, columns: Sequence[str], kind: str) -> Any:
    first = columns[0]
    if kind == "image":
        if not split.features[first].decode:
            decoded = _optional.optional("datasets", "hub").Image()
            split = split.cast_column(first, decoded)
        return HubImages(split, first, path)
    if kind == "text":
        return np.array(_column(path, split, first, "text").to_pylist(), np.str_)
    if _type(split.features[first]) == "vector":
        rows = _column(path, split, first, "vector").to_pylist()
        try:
            return np.array(rows, dtype=np.float64).reshape(len(rows), -1)
        except (TypeError, ValueError) as error:
            _refuse(path, f"vectors of one length in {first!r}", f"others ({error})")
    table = [_column(path, split, c, "number").to_numpy() for c in columns]
    return np.column_stack(table).astype(np.result_type(*table, np.float32))
