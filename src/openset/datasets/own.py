"""Your own data: arrays, ``.npz`` and ``.csv`` files, folders of images."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _npz
from openset._types import UNKNOWN, ArtefactError
from openset.datasets import lazy_inputs
from openset.datasets.dataset import PART_NAMES, SAVED, Dataset, consecutive
from openset.datasets.lazy_inputs import ImageFiles, image_paths
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
    pieces = [(np.asarray(inputs), np.asarray(labels))]
    if test is not None:
        pieces.append((np.asarray(test[0]), np.asarray(test[1])))
    for x, y in pieces:
        _check.vector(caller, "labels", y)
        _check.same_length(caller, {"inputs": len(x), "labels": len(y)})
    lazy_inputs.need_one_range(caller, [x for x, _ in pieces])
    shapes = {x.shape[1:] for x, _ in pieces}
    if len(shapes) > 1:
        got = " and ".join(str(x.shape[1:]) for x, _ in pieces)
        _check.fail(caller, "inputs and test inputs", "of one shape", got)
    joined = np.concatenate([x for x, _ in pieces])
    numbers, names = _numbered(np.concatenate([y for _, y in pieces]), classes)
    sizes = dict(zip(("train", "test"), (len(y) for _, y in pieces), strict=False))
    return Dataset(
        inputs=joined,
        labels=numbers,
        classes=names,
        kind=kind or _kind(joined),
        name=name,
        parts={} if test is None else consecutive(sizes),
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

    The file holds what :meth:`Dataset.save` writes, or arrays of that form (``inputs``,
    ``labels``, optionally ``classes``, ``part_train``, …), or ``train_x, train_y,
    test_x, test_y`` and ``class_names``. Parts under other names are refused.
    """
    path = Path(path)
    arrays, about = _npz.load("datasets.load", path)
    names = next((arrays[k] for k in ("classes", "class_names") if k in arrays), None)
    classes = about.get("classes", None if names is None else names.tolist())
    refuse = f"datasets.load: {path}"
    is_saved = {"inputs", "labels"} <= set(arrays)
    pairs = [p for p in ("train", "test") if {f"{p}_x", f"{p}_y"} <= set(arrays)]
    read = {f"part_{part}" for part in PART_NAMES}
    if not is_saved:
        read = {f"{part}_{one}" for part in pairs for one in "xy"}
    ignored = [n for n in arrays if n.startswith(_PARTS_IN_FILE) and n not in read]
    if ignored:
        msg = (
            f"{refuse} must hold its parts as train_x, train_y, test_x and test_y, or "
            "as inputs and labels with the rows part_train, part_validation and "
            f"part_test, got {', '.join(sorted(ignored))}"
        )
        raise ArtefactError(msg)
    if not is_saved and "train" not in pairs:
        got = ", ".join(sorted(arrays)) or "nothing"
        msg = f"{refuse} must hold inputs and labels, or train_x and train_y, got {got}"
        raise ArtefactError(msg)
    try:
        if not is_saved:
            x, y = arrays["train_x"], arrays["train_y"]
            test = (arrays["test_x"], arrays["test_y"]) if len(pairs) > 1 else None
            return from_arrays(x, y, test=test, classes=classes, name=path.stem)
        numbers, listed = _numbered(arrays["labels"], classes)
        texts = {k: about[k] for k in SAVED if k in about} | {"classes": listed}
        return Dataset(
            inputs=arrays["inputs"],
            labels=numbers,
            kind=about.get("inputs") or _kind(arrays["inputs"]),
            parts={k[5:]: rows for k, rows in arrays.items() if k in read},
            **texts | {"name": texts.get("name") or path.stem},
        )
    except (TypeError, ValueError) as error:
        msg = f"{refuse} is not a data set: {error}"
        raise ArtefactError(msg) from error


def from_pairs(
    parts: Mapping[str, Sequence[Any]], *, name: str, unlisted: str = "", note: str = ""
) -> Dataset:
    """Build a data set from (text, class) pairs; classes in code-point order."""
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
        note=note,
    )


def from_csv(path: Path) -> Dataset:
    """Read a ``.csv`` or ``.tsv`` with the columns text, label and perhaps part."""
    name, delimiter = f"{path}", "\t" if path.suffix == ".tsv" else ","

    def refuse(rule: str, got: object, remedy: str = "") -> None:
        _check.fail("datasets.load", name, rule, got, remedy, ArtefactError)

    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(csv.DictReader(stream, delimiter=delimiter))
    except (UnicodeDecodeError, csv.Error) as error:
        refuse("a table in UTF-8", error)
    columns = [one for one in rows[0] if one is not None] if rows else []
    if not {"text", "label"} <= set(columns):
        rule = "a table of texts with the columns text and label, and perhaps part"
        refuse(rule, f"the columns {', '.join(columns)}" if columns else "no rows")
    for number, row in enumerate(rows, start=2):
        if not row["text"] or not row["label"]:
            refuse("a table with a text and a label in every row", f"none in {number}")
        if None in row:  # a comma in the text would move the label
            remedy = f"Put a text with a {delimiter!r} in it in quotes"
            rule = f"a table with {len(columns)} columns in every row"
            refuse(rule, f"more in row {number}", remedy)
    if "part" not in columns:
        pairs = [(row["text"], row["label"]) for row in rows]
        return replace(from_pairs({"train": pairs}, name=path.stem), parts={})
    parts: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        _check.one_of("datasets.load", f"part in {path}", row["part"], PART_NAMES)
        parts.setdefault(row["part"], []).append((row["text"], row["label"]))
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
        msg = f"datasets: {path} must have one validation part, got several: {found}"
        raise ArtefactError(msg)
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
    for name in parts:
        if _folders(folder / name):
            rule = (
                "CLASS/image.jpg, or PART/CLASS/image.jpg with the parts train, val "
                "and test alone"
            )
            others = ", ".join(one for one in found if one != name)[:60] or "nothing"
            got = f"{name} with folders in it, beside {others}"
            remedy = "Name the folder below it, or rename the parts"
            _check.fail("datasets", str(folder), rule, got, remedy, ArtefactError)


def _folders(path: Path) -> list[str]:
    return sorted(p.name for p in path.iterdir() if p.is_dir() and p.name[0] != ".")


def class_folders(folder: Path) -> list[str]:
    """Return the names of the class folders, in code-point order."""
    if not folder.is_dir():
        msg = f"datasets: no such folder: {folder}"
        raise FileNotFoundError(msg)
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
    listings: Mapping[str, Listing],
    classes: Sequence[str],
    *,
    name: str,
    mode: str = "RGB",
    invert: bool = False,
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
    sizes = {part: len(listing) for part, listing in listings.items()}
    return Dataset(
        inputs=ImageFiles(tuple(path for path, _ in pairs), mode, invert),
        labels=np.array([number[c] for _, c in pairs], dtype=np.int64),
        classes=tuple(classes),
        kind="image",
        name=name,
        parts={} if "" in sizes else consecutive(sizes),
    )
