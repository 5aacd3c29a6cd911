"""Lists of images: text files with a line ``path label`` for each image."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN, ArtefactError
from openset.datasets.lazy_inputs import ImageFiles
from openset.datasets.places import reading


class ImageList(NamedTuple):
    """Some of the images of a folder, in order, with their labels.

    Parameters
    ----------
    name
        Where it comes from, for messages.
    paths
        Image files, relative to a folder that the list does not name.
    labels
        Numbers of classes; -1 for images of no known class.
    """

    name: str
    paths: tuple[str, ...]
    labels: NDArray[np.int64]

    def files(self, folder: str | Path) -> ImageFiles:
        """Return the images below a folder; raise if some are not there."""
        root = Path(folder)
        missing = [path for path in self.paths if not (root / path).is_file()]
        if missing:
            rule = f"a folder with the {len(self.paths)} images of {self.name}"
            got = f"{root} without {len(missing)} of them, such as {missing[0]}"
            remedy = "Paths in a list are relative to this folder"
            error = FileNotFoundError
            _check.fail("image_lists", "folder", rule, got, remedy, error)
        return ImageFiles(tuple(str(root / path) for path in self.paths))


def read(path: str | Path) -> ImageList:
    """Read a text file with a line ``path label`` for each image.

    OpenOOD's ``benchmark_imglist`` has such files. The label is what follows the last
    space, so that names may have spaces; all negative labels become -1. Empty lines are
    left out.
    """
    file, paths, labels = Path(path), [], []
    rule = "lines of a path, a space and a label (a number of a class, or -1)"
    with reading(file):
        lines = file.read_text("utf-8-sig").splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        name, _, label = line.strip().replace("\t", " ").rpartition(" ")
        if not (name and label.removeprefix("-").isdecimal() and len(label) < 10):
            got = f"{line.strip()[:80]!r} in line {number} of {file}"
            _check.fail("image_lists", "list", rule, got, error=ArtefactError)
        paths.append(name.rstrip())
        # OpenOOD has other negative labels, too; here -1 is the only one.
        labels.append(max(int(label), UNKNOWN))
    if not paths:
        got = f"{file}, which has none"
        _check.fail("image_lists", "list", rule, got, error=ArtefactError)
    return ImageList(str(file), tuple(paths), np.array(labels, dtype=np.int64))


def of_unknown(name: str, paths: tuple[str, ...]) -> ImageList:
    """Return a list of images of no known class."""
    return ImageList(name, paths, np.full(len(paths), UNKNOWN))
