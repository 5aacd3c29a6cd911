"""Your own data: arrays, ``.npz`` and ``.csv`` files, folders of images."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _npz
from openset._types import UNKNOWN, ArtefactError
from openset.datasets import lazy_inputs
from openset.datasets.dataset import PART_NAMES, SAVED, Dataset, consecutive
from openset.datasets.lazy_inputs import ImageFiles, image_paths
from openset.datasets.places import reading
from openset.protocols.classes import few

Listing = list[tuple[str, str]]
"""Pairs of an image file and the name of its class."""

_FOLDERS = {"train": "train", "test": "test"} | dict.fromkeys(
    ("val", "valid", "validation"), "validation"
)
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
    given = {"": (inputs, labels)}
    if test is not None:
        given = {"train": (inputs, labels), "test": test}
    pieces = {part: (np.asarray(x), np.asarray(y)) for part, (x, y) in given.items()}
    for x, y in pieces.values():
        _check.vector(caller, "labels", y)
        _check.same_length(caller, {"inputs": len(x), "labels": len(y)})
    joined = lazy_inputs.join(caller, [x for x, _ in pieces.values()])
    numbers, names = _numbered(np.concatenate([y for _, y in pieces.values()]), classes)
    return Dataset(
        inputs=joined,
        labels=numbers,
        classes=names,
        kind=kind or _kind(joined),
        name=name,
        parts=consecutive({part: len(y) for part, (_, y) in pieces.items()}),
    )


def _numbered(
    labels: NDArray[Any], classes: Iterable[Any] | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return class numbers and names; without `classes`, of those that occur."""
    if labels.dtype.kind in "iu":
        n_classes = int(labels.max()) + 1
        if classes is None and n_classes > 8 * labels.size + 1024:
            rule = "numbers of classes, or classes must be given"
            _check.fail("from_arrays", "labels", rule, n_classes - 1)
        names = range(n_classes) if classes is None else classes
        return labels.astype(np.int64), tuple(str(c) for c in names)
    if labels.dtype.kind != "U":
        rule, got = "class numbers or names", f"dtype {labels.dtype}"
        _check.fail("from_arrays", "labels", rule, got, error=TypeError)
    found, numbers = np.unique(labels, return_inverse=True)
    listed = found.tolist() if classes is None else [str(c) for c in classes]
    if strangers := sorted(set(found.tolist()) - set(listed)):
        _check.fail("from_arrays", "labels", "among classes", few(strangers))
    place = np.array([listed.index(c) for c in found.tolist()], dtype=np.int64)
    return place[numbers], tuple(listed)


def _kind(inputs: NDArray[Any]) -> str:
    is_text, is_number = inputs.dtype.kind == "U", inputs.dtype.kind in "fiu"
    if is_text and inputs.ndim == 1:
        return "text"
    if is_number and inputs.ndim in (2, 3, 4):
        return "table" if inputs.ndim == 2 else "image"
    rule = "images (n, h, w[, 3]), texts (n,) or rows of numbers (n, d)"
    got = f"dtype {inputs.dtype}, shape {inputs.shape}"
    return _check.fail("from_arrays", "inputs", rule, got, error=TypeError)


def from_npz(path: str | Path) -> Dataset:
    """Read a data set from ``.npz``; nothing in it is unpickled.

    The file holds what :meth:`Dataset.save` writes, or arrays of that form: ``inputs``,
    ``labels``, optionally ``classes``, ``part_train``, ``part_validation`` and
    ``part_test``. Parts under other names are refused.
    """
    path = Path(path)
    arrays, about = _npz.load("datasets.load", path)
    read = {f"part_{part}" for part in PART_NAMES}
    ignored = [n for n in arrays if n.startswith(_PARTS_IN_FILE) and n not in read]
    if ignored or not {"inputs", "labels"} <= set(arrays):
        rule = (
            "a data set of inputs and labels, perhaps with classes and the rows "
            "part_train, part_validation and part_test"
        )
        got = ", ".join(sorted(ignored or arrays)) or "nothing"
        _check.fail("datasets.load", f"{path}", rule, got, error=ArtefactError)
    try:
        names = about.get("classes", arrays.get("classes"))
        numbers, listed = _numbered(arrays["labels"], names)
        texts = {k: about[k] for k in SAVED if k in about} | {"classes": listed}
        return Dataset(
            inputs=arrays["inputs"],
            labels=numbers,
            kind=about.get("inputs") or _kind(arrays["inputs"]),
            parts={k[5:]: rows for k, rows in arrays.items() if k in read},
            **texts | {"name": texts.get("name") or path.stem},
        )
    except (TypeError, ValueError) as error:
        msg = f"datasets.load: {path} is not a data set: {error}"
        raise ArtefactError(msg) from error


def from_pairs(
    parts: Mapping[str, Sequence[Any]], *, name: str, unlisted: str = ""
) -> Dataset:
    """Build a data set from (text, class) pairs of each part ("" = no official part).

    Classes are in code-point order.
    """
    pairs = [(str(text), str(c)) for part in parts.values() for text, c in part]
    classes = sorted({c for _, c in pairs} - {unlisted})
    number = {c: i for i, c in enumerate(classes)} | {unlisted: UNKNOWN}
    return Dataset(
        inputs=np.array([text for text, _ in pairs], dtype=np.str_),
        labels=np.array([number[c] for _, c in pairs], dtype=np.int64),
        classes=tuple(classes),
        kind="text",
        name=name,
        parts=consecutive({part: len(found) for part, found in parts.items()}),
        unlisted=unlisted,
    )


def from_csv(path: Path) -> Dataset:
    """Read a ``.csv`` or ``.tsv`` with the columns text, label and perhaps part."""
    delimiter = "\t" if path.suffix == ".tsv" else ","
    with reading(path), path.open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter=delimiter))
    rule = "a table of texts with the columns text and label, and perhaps part"
    parts: dict[str, Any] = {}
    for number, row in enumerate(rows, start=2):
        # With a comma too many, a piece of the text would be the label.
        if None in row or not (row.get("text") and row.get("label")):
            got, remedy = f"others in row {number}", f"Quote texts with {delimiter!r}"
            _check.fail("datasets.load", f"{path}", rule, got, remedy, ArtefactError)
        if "part" in row:
            name = f"part in {path}"
            _check.one_of("datasets.load", name, row["part"], PART_NAMES)
        parts.setdefault(row.get("part", ""), []).append((row["text"], row["label"]))
    if not parts:
        _check.fail("datasets.load", f"{path}", rule, "no rows", error=ArtefactError)
    return from_pairs(parts, name=path.stem)


def image_folder(path: Path) -> Dataset:
    """Read a folder of images: ``CLASS/image.jpg``, or ``PART/CLASS/image.jpg``.

    Parts are recognised by name: train; val, valid or validation; test. The classes are
    the folder names in code-point order, over all parts. A folder with ``train`` and
    ``val`` but no ``test`` has ``val`` as its test part, as ImageNet is used. Parts
    beside other folders, or by other names such as ``Train``, are refused. A folder of
    images alone is one class, named after it.
    """
    name = path.resolve().name
    found = _folders(path)
    if not found and (images := image_paths(path)):
        return from_listings({"": [(one, name) for one in images]}, [name], name=name)
    found = class_folders(path)
    if set(found) - set(_FOLDERS):
        _need_no_parts_among(path, found)
        return from_listings({"": list_folder(path)}, found, name=name)
    if len({_FOLDERS[part] for part in found}) < len(found):
        rule, got = "a folder with one validation part", few(found)
        _check.fail("datasets", f"{path}", rule, got, error=ArtefactError)
    listings = {_FOLDERS[part]: list_folder(path / part) for part in found}
    if "test" not in listings and "validation" in listings and "train" in listings:
        listings["test"] = listings.pop("validation")
    classes = sorted({c for listing in listings.values() for _, c in listing})
    return from_listings(listings, classes, name=name)


def _need_no_parts_among(folder: Path, found: list[str]) -> None:
    """Refuse parts that would be read as classes: folders of folders, by name."""
    names = {*_FOLDERS, "training", "testing"}
    # An archive often unpacks to one folder around all others: no class, either.
    parts = found if len(found) == 1 else [n for n in found if n.lower() in names]
    if parts := [name for name in parts if _folders(folder / name)]:
        rule = "CLASS/image.jpg, or PART/CLASS/image.jpg with train, val and test alone"
        got = f"{parts[0]} with folders in it, among {few(found)}"
        remedy = "Name the folder below it, or rename the parts"
        _check.fail("datasets", str(folder), rule, got, remedy, ArtefactError)


def _folders(path: Path) -> list[str]:
    return sorted(p.name for p in path.iterdir() if p.is_dir() and p.name[0] != ".")


def class_folders(folder: Path) -> list[str]:
    """Return the names of the class folders, in code-point order."""
    if names := _folders(folder):
        return names
    remedy = f"Expected {folder / 'CLASS' / 'image.jpg'}"
    rule = "a folder with one folder per class"
    return _check.fail("datasets", str(folder), rule, "none", remedy, ArtefactError)


def list_folder(folder: Path) -> Listing:
    """List a folder that has one folder of images per class."""
    names = class_folders(folder)
    return [(path, c) for c in names for path in image_paths(folder / c)]


def from_listings(
    listings: Mapping[str, Listing], classes: Sequence[str], *, name: str
) -> Dataset:
    """Build a data set from the image files of each part ("" = no official part)."""
    number = {c: i for i, c in enumerate(classes)}
    for part, listing in listings.items():
        where = f"{name} in its {part or 'folder'}"
        if not listing:
            _check.fail("datasets", where, "with images", "none", error=ArtefactError)
        if strangers := sorted({c for _, c in listing} - set(number)):
            rule = f"images of its {len(classes)} classes"
            _check.fail("datasets", where, rule, few(strangers), error=ArtefactError)
    pairs = [pair for listing in listings.values() for pair in listing]
    return Dataset(
        inputs=ImageFiles(tuple(path for path, _ in pairs)),
        labels=np.array([number[c] for _, c in pairs], dtype=np.int64),
        classes=tuple(classes),
        kind="image",
        name=name,
        parts=consecutive({part: len(one) for part, one in listings.items()}),
    )
