"""`openset extract --list`: the images of a list, below one folder."""

from pathlib import Path

import numpy as np

from openset import _check
from openset._types import UNKNOWN
from openset.cli._extract_network import Loaded
from openset.cli._options import naming
from openset.datasets import image_lists
from openset.datasets.image_lists import ImageList
from openset.datasets.lazy_inputs import ImageFiles

_CALLER = "openset extract"


def read_list(text: str, folder: str) -> tuple[ImageList, ImageFiles]:
    """Read a list, a file or one of a benchmark by name, and find its images."""
    with naming(_CALLER, {"list": "--list", "folder": "DATA", "data": "--list"}):
        listed = _benchmark_list(text) or image_lists.read(text)
        return listed, listed.files(folder)


def _benchmark_list(text: str) -> ImageList | None:
    """Return a list of a benchmark by name; None if this is a file."""
    name, slash, data = text.partition("/")
    if Path(text).exists() or not (slash and ":" in name):
        return None
    from openset.bench import named  # noqa: PLC0415  # the extra may be missing

    if name not in named.names():
        return None
    return image_lists.of_unknown(text, named.load(name).images(data))


def check_labels(listed: ImageList, images: ImageFiles, network: Loaded) -> None:
    """Raise before the network runs if a label is of no class of the network."""
    if not (listed.labels != UNKNOWN).any():
        return
    n_classes: int | None = len(network.classes)
    if not n_classes:  # it has no names of its classes: run it on one image
        one = images.take(np.arange(1))
        n_classes = network.apply(one, invalid="keep").n_classes
    if n_classes is None:
        return
    rows = np.flatnonzero(listed.labels >= n_classes)
    if rows.size:
        msg = _check.must(
            f"a list with labels below {n_classes}, the network's number of classes",
            caller=_CALLER,
            name="--list",
            got=f"{rows.size} larger ones in {listed.name}, such as "
            f"{listed.labels[rows[0]]} for {listed.paths[rows[0]]}",
            remedy="If none of the images is of a known class, add --unknown",
        )
        raise ValueError(msg)


def groups(listed: ImageList, classes: tuple[str, ...]) -> np.ndarray:
    """Return the class of each image; for -1, the name of the list."""
    names = {label: str(label) for label in set(listed.labels.tolist())}
    names |= dict(enumerate(classes))
    names[UNKNOWN] = Path(listed.name).stem
    return np.array([names[label] for label in listed.labels.tolist()])
