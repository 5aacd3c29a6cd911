"""Your own data: arrays and ``.npz`` files."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _npz
from openset._types import ArtefactError
from openset.datasets import lazy_inputs
from openset.datasets._dataset import PART_NAMES, Dataset, consecutive

_TEXTS = ("kind", "name", "unlisted", "label_set", "note")
_PARTS_IN_FILE = ("part_", "train_", "val_", "valid_", "validation_", "test_")


def from_arrays(
    inputs: ArrayLike,
    labels: ArrayLike,
    *,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    classes: Any = None,
    kind: str | None = None,
    name: str = "arrays",
) -> Dataset:
    """Make a data set from arrays.

    Parameters
    ----------
    inputs
        Images (n, h, w) or (n, h, w, 3), texts (n,) or rows of numbers (n, d).
    labels
        Class numbers, or class names.
    test
        Inputs and labels of a test part; `inputs` are then the training part.
    classes
        Class names; by default the names that occur, or the numbers as names.
    kind
        "image", "text" or "table"; by default guessed from the shape.
    name
        Name of the data set.

    Examples
    --------
    >>> from_arrays(["hello", "bye", "hi"], ["in", "out", "in"], name="greetings")
    Dataset(greetings, text, n=3, classes=2)
    >>> from_arrays([[1.0], [2.0]], [0, 1], test=([[3.0]], [1]))
    Dataset(arrays, table, n=3, classes=2, train=2, test=1)
    """
    caller = "from_arrays"
    pieces = [(np.asarray(inputs), np.asarray(labels))]
    if test is not None:
        pieces.append((np.asarray(test[0]), np.asarray(test[1])))
    for values, numbers in pieces:
        _check.vector(caller, "labels", numbers)
        lengths = {"inputs": len(values), "labels": len(numbers)}
        _check.same_length(caller, lengths)
    lazy_inputs.need_one_range(caller, [values for values, _ in pieces])
    if len({values.shape[1:] for values, _ in pieces}) > 1:
        shapes = " and ".join(str(values.shape[1:]) for values, _ in pieces)
        msg = f"{caller}: inputs and test inputs must have one shape, got {shapes}"
        raise ValueError(msg)
    joined = np.concatenate([values for values, _ in pieces])
    numbers, names = _numbered(np.concatenate([y for _, y in pieces]), classes)
    parts = {}
    if test is not None:
        train_size, test_size = (len(y) for _, y in pieces)
        parts = consecutive({"train": train_size, "test": test_size})
    return Dataset(
        inputs=joined,
        labels=numbers,
        classes=names,
        kind=kind or _kind(joined),
        name=name,
        parts=parts,
    )


def _numbered(
    labels: NDArray[Any], classes: Any
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    if labels.dtype.kind in "iu":
        n = int(labels.max()) + 1
        names = [str(i) for i in range(n)] if classes is None else classes
        return labels.astype(np.int64), tuple(str(c) for c in names)
    if labels.dtype.kind != "U":
        msg = _check.must(
            "class numbers or names",
            caller="from_arrays",
            name="labels",
            got=f"dtype {labels.dtype}",
        )
        raise TypeError(msg)
    found, numbers = np.unique(labels, return_inverse=True)
    if classes is None:
        return numbers.astype(np.int64), tuple(str(c) for c in found.tolist())
    names = [str(c) for c in classes]
    strangers = sorted(set(found.tolist()) - set(names))
    if strangers:
        msg = _check.must(
            "among classes",
            caller="from_arrays",
            name="labels",
            got=", ".join(repr(c) for c in strangers[:5]),
        )
        raise ValueError(msg)
    place = np.array([names.index(c) for c in found.tolist()], dtype=np.int64)
    return place[numbers], tuple(names)


def _kind(inputs: NDArray[Any]) -> str:
    if inputs.dtype.kind == "U" and inputs.ndim == 1:
        return "text"
    if inputs.dtype.kind in "fiu" and inputs.ndim == 2:
        return "table"
    if inputs.dtype.kind in "fiu" and inputs.ndim in (3, 4):
        return "image"
    msg = _check.must(
        "images (n, h, w[, 3]), texts (n,) or rows of numbers (n, d)",
        caller="from_arrays",
        name="inputs",
        got=f"dtype {inputs.dtype}, shape {inputs.shape}",
    )
    raise TypeError(msg)


def from_npz(path: str | Path) -> Dataset:
    """Read a data set from ``.npz``; nothing in it is unpickled.

    The file holds what :meth:`Dataset.save` writes (``inputs``, ``labels``, optionally
    ``classes``, ``part_train``, …), or ``train_x, train_y, test_x, test_y`` and
    ``class_names``. Parts under other names are refused.
    """
    path = Path(path)
    arrays = _npz.read("datasets.load", path)
    _check_all_read(path, set(arrays))
    try:
        if "inputs" in arrays and "labels" in arrays:
            return _saved(path, arrays)
        if {"train_x", "train_y"} <= set(arrays):
            return _train_test(path, arrays)
    except (TypeError, ValueError) as error:
        msg = f"datasets.load: {path} is not a data set: {error}"
        raise ArtefactError(msg) from error
    msg = (
        f"datasets.load: {path} must hold inputs and labels, or train_x and train_y, "
        f"got {', '.join(sorted(arrays)) or 'nothing'}"
    )
    raise ArtefactError(msg)


def _check_all_read(path: Path, names: set[str]) -> None:
    """Refuse a file with a part that would be ignored, such as test_x alone."""
    if {"inputs", "labels"} <= names:
        read = {f"part_{part}" for part in PART_NAMES}
    else:
        pairs = ({"train_x", "train_y"}, {"test_x", "test_y"})
        read = {name for pair in pairs if pair <= names for name in pair}
    ignored = sorted(n for n in names - read if n.startswith(_PARTS_IN_FILE))
    if ignored:
        msg = (
            f"datasets.load: {path} must hold its parts as train_x, train_y, test_x "
            "and test_y, or as inputs and labels with the rows part_train, "
            f"part_validation and part_test, got {', '.join(ignored)}"
        )
        raise ArtefactError(msg)


def _class_names(arrays: dict[str, NDArray[Any]]) -> list[str] | None:
    found = [arrays[key] for key in ("classes", "class_names") if key in arrays]
    return found[0].tolist() if found else None


def _saved(path: Path, arrays: dict[str, NDArray[Any]]) -> Dataset:
    numbers, names = _numbered(arrays["labels"], _class_names(arrays))
    texts = {text: str(arrays[text]) for text in _TEXTS if text in arrays}
    if not texts.get("name"):
        texts["name"] = path.stem
    texts.setdefault("kind", _kind(arrays["inputs"]))
    return Dataset(
        inputs=arrays["inputs"],
        labels=numbers,
        classes=names,
        parts={p: arrays[f"part_{p}"] for p in PART_NAMES if f"part_{p}" in arrays},
        ids=tuple(arrays["ids"].tolist()) if "ids" in arrays else (),
        **texts,
    )


def _train_test(path: Path, arrays: dict[str, NDArray[Any]]) -> Dataset:
    test = None
    if {"test_x", "test_y"} <= set(arrays):
        test = (arrays["test_x"], arrays["test_y"])
    return from_arrays(
        arrays["train_x"],
        arrays["train_y"],
        test=test,
        classes=_class_names(arrays),
        name=path.stem,
    )
