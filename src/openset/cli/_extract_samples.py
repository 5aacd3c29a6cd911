"""`openset extract`: read the samples, with their labels, groups and names."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from openset import _check, datasets
from openset._types import UNKNOWN
from openset.cli._extract_lists import check_labels, groups
from openset.cli._extract_network import Loaded
from openset.cli._extract_shards import read_array
from openset.datasets import Dataset, lazy_inputs
from openset.datasets.image_lists import ImageList
from openset.datasets.lazy_inputs import ImageFiles, image_paths
from openset.shards import is_url

_CALLER = "openset extract"
_LONGEST = 80  # characters of a text


@dataclass(frozen=True, eq=False)
class Samples:
    """Inputs, labels that index the known classes, and groups."""

    inputs: Any
    labels: NDArray[np.int64] | None
    groups: NDArray[Any] | None
    classes: tuple[str, ...]


def listed_samples(
    chosen: tuple[ImageList, ImageFiles], part: str, network: Loaded, *, unknown: bool
) -> Samples:
    """Return the images of a list; numbers name the classes that have no names."""
    check_part(part, {})
    listed, images = chosen
    if not unknown:
        check_labels(listed, images, network)
    classes = network.classes
    if network.embeds and not classes:
        classes = tuple(map(str, range(int(listed.labels.max()) + 1)))
    return Samples(images, listed.labels, groups(listed, classes), classes)


def read_samples(
    data: str,
    part: str,
    root: Path | None,
    known: tuple[str, ...],
    *,
    names_classes: bool,
) -> Samples:
    """Read the samples.

    With `names_classes`, and where none are known, the classes are those of the data.
    """
    unlabelled = _unlabelled(Path(data))
    if unlabelled is not None:
        check_part(part, {})
        return Samples(unlabelled[0], None, unlabelled[1], known)
    loaded = datasets.load(data, root)
    check_part(part, loaded.parts)
    rows = loaded.parts[part] if part else np.arange(len(loaded.labels))
    if names_classes and not known:
        occurring = set(loaded.labels[rows].tolist())
        known = tuple(c for i, c in enumerate(loaded.classes) if i in occurring)
    labels, groups = _labelled(loaded, known)
    inputs = lazy_inputs.take(loaded.inputs, rows)
    return Samples(inputs, labels[rows], groups[rows], known)


def _unlabelled(path: Path) -> tuple[Any, NDArray[Any] | None] | None:
    """Return inputs and groups of unlabelled data; None if the data have labels."""
    if path.suffix == ".npy":
        return read_array(path), None
    if path.suffix == ".txt":
        texts = lines(path)
        return texts, np.full(len(texts), path.stem)
    if not path.is_dir():
        return None
    files = [one for one in image_paths(path) if Path(one).parent == path]
    folders = [one for one in path.iterdir() if one.is_dir() and one.name[0] != "."]
    if files and folders:
        msg = _check.must(
            "a folder of images, or a folder with one folder per class",
            caller=_CALLER,
            name="DATA",
            got=f"{path} with both ({Path(files[0]).name}, {folders[0].name}/)",
            remedy="Images outside the class folders would be ignored",
        )
        raise ValueError(msg)
    if not files:
        return None
    return ImageFiles(tuple(files)), np.full(len(files), path.resolve().name)


def _labelled(
    data: Dataset, known: tuple[str, ...]
) -> tuple[NDArray[np.int64], NDArray[np.str_]]:
    """Return labels that index `known`, and the class name of each sample."""
    # macOS stores ü in file names as two characters: compare composed names.
    number = {normalize("NFC", name): i for i, name in enumerate(known)}
    found = [number.get(normalize("NFC", name), UNKNOWN) for name in data.classes]
    # The last entry is for samples without a class, labelled -1.
    labels = np.array([*found, UNKNOWN])
    names = np.array([*data.classes, data.unlisted])
    return labels[data.labels], names[data.labels]


def sample_names(inputs: Any, folder: Path) -> list[str] | None:
    """Return the beginnings of texts, or file names.

    File names are relative to the folder, or absolute if outside of it.
    """
    if not isinstance(inputs, ImageFiles):
        if not (len(inputs) and isinstance(inputs[0], str)):
            return None
        # Short: NumPy stores all of them as long as the longest.
        return [textwrap.shorten(text, _LONGEST, placeholder=" …") for text in inputs]
    root = folder.resolve()
    paths = [Path(path).resolve() for path in inputs.paths]
    return [
        (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()
        for path in paths
    ]


def lines(path: Path) -> list[str]:
    """Return the lines of a text file that are not empty."""
    return [line for line in path.read_text("utf-8").splitlines() if line.strip()]


def check_data(data: str) -> None:
    """Refuse a path that leads nowhere before a network is loaded or downloaded."""
    if is_url(data) or datasets.is_name(data) or Path(data).exists():
        return
    is_word = not (set("/\\:") & set(data) or Path(data).suffix)
    names = "openset datasets lists the names of data sets"
    near = _check.near(data, datasets.names())
    msg = _check.must(
        "a file, a folder or the name of a data set",
        caller=_CALLER,
        name="DATA",
        got=f"{data}, and there is no such file or folder",
        remedy=(near or names) if is_word else "",
    )
    raise FileNotFoundError(msg)


def check_part(part: str, parts: Mapping[str, Any]) -> None:
    """Raise unless the data have this part."""
    if part and not parts:
        rule, got = "left out for data without parts", repr(part)
        raise ValueError(_check.must(rule, caller=_CALLER, name="--part", got=got))
    if part:
        _check.one_of(_CALLER, "--part", part, sorted(parts))
