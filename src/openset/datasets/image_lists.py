"""Lists of images: text files with a line ``path label`` for each image."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN, ArtefactError
from openset.datasets.lazy_inputs import ImageFiles

_LABEL = re.compile(r"-?[0-9]{1,9}")
_LINE = "a path, a space and a label (a number of a class, or -1 for unknown)"


@dataclass(frozen=True, eq=False)
class ImageList:
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

    def __len__(self) -> int:
        return len(self.paths)

    def files(self, folder: str | Path) -> ImageFiles:
        """Return the images below a folder; raise if some are not there."""
        root = Path(folder)
        if not root.is_dir():
            rule = "the folder that paths in the list are relative to"
            got = f"{root}, which is no folder"
            msg = _check.must(rule, caller="image_lists", name="folder", got=got)
            raise FileNotFoundError(msg)
        missing = [path for path in self.paths if not (root / path).is_file()]
        if missing:
            is_all = len(missing) == len(self)
            msg = _check.must(
                f"a folder with the {len(self)} images of {self.name}",
                caller="image_lists",
                name="folder",
                got=f"{root} without {'any' if is_all else len(missing)} of them, "
                f"such as {missing[0]}",
                remedy=_remedy(missing[0], root) if is_all else "",
            )
            raise FileNotFoundError(msg)
        return ImageFiles(tuple(str(root / path) for path in self.paths))


def read(path: str | Path) -> ImageList:
    """Read a text file with a line ``path label`` for each image.

    OpenOOD's ``benchmark_imglist`` has such files. The label is what follows the last
    space, so that names may have spaces; all negative labels become -1. Empty lines are
    left out.
    """
    file = Path(path)
    if not file.is_file():
        msg = f"image_lists: no such list: {file}"
        raise FileNotFoundError(msg)
    try:
        lines = file.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        msg = f"image_lists: {file} is not a text file ({error})"
        raise ArtefactError(msg) from error
    pairs = [_parsed(line, n, file) for n, line in enumerate(lines, 1) if line.strip()]
    if not pairs:
        got = f"{file}, which has none"
        msg = _check.must(
            f"a file with lines of {_LINE}", caller="image_lists", name="list", got=got
        )
        raise ArtefactError(msg)
    paths, labels = zip(*pairs, strict=True)
    return ImageList(str(file), paths, np.array(labels, dtype=np.int64))


def of_unknown(name: str, paths: tuple[str, ...]) -> ImageList:
    """Return a list of images of no known class."""
    return ImageList(name, paths, np.full(len(paths), UNKNOWN))


def _parsed(line: str, number: int, file: Path) -> tuple[str, int]:
    words = line.rsplit(maxsplit=1)
    if len(words) < 2 or not _LABEL.fullmatch(words[1]):
        msg = _check.must(
            f"lines of {_LINE}",
            caller="image_lists",
            name="list",
            got=f"{line.strip()[:80]!r} in line {number} of {file}",
        )
        raise ArtefactError(msg)
    # OpenOOD has other negative labels, too; here -1 is the only one.
    return words[0].strip(), max(int(words[1]), UNKNOWN)


def _remedy(path: str, root: Path) -> str:
    """Name the folder that has this image: above `root`, or in it."""
    inside = sorted(one for one in root.iterdir() if one.is_dir())
    for one in (*inside, *root.resolve().parents):
        if (one / path).is_file():
            return f"Give {one}, which has them"
    first = Path(path).parts[0]
    return (
        f"Paths in a list are relative to one folder: give the one with {first} in it"
    )
