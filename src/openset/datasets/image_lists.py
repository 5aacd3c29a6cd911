"""Lists of images: text files with a line ``path label`` for each image."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN, ArtefactError
from openset.datasets.lazy_inputs import ENDINGS, ImageFiles

_LABEL = re.compile(r"-?[0-9]{1,9}")
_NUMBERED = re.compile(rf"(.*\S)\s+({_LABEL.pattern})")
_NAMED = re.compile(rf"(.*(?:{'|'.join(map(re.escape, ENDINGS))}))(?:\s+(.*))?", re.I)
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
    lines = read_lines(file)
    if not lines:
        got = f"{file}, which has none"
        msg = _check.must(
            f"a file with lines of {_LINE}", caller="image_lists", name="list", got=got
        )
        raise ArtefactError(msg)
    labels = [_number(line, file) for line in lines]
    paths = tuple(line.path for line in lines)
    return ImageList(str(file), paths, np.array(labels, dtype=np.int64))


class Line(NamedTuple):
    """A line of a list: its number in the file, the path, the label or ""."""

    number: int
    path: str
    label: str


def read_lines(path: Path) -> list[Line]:
    """Read the lines of a list of images; labels may be missing, or names.

    The label is a number after the last space, else what follows the name of an image
    file.
    """
    if not path.is_file():
        msg = f"image_lists: no such list: {path}"
        raise FileNotFoundError(msg)
    try:
        texts = path.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        msg = f"image_lists: {path} is not a text file ({error})"
        raise ArtefactError(msg) from error
    return [_parsed(t.strip(), n) for n, t in enumerate(texts, 1) if t.strip()]


def of_unknown(name: str, paths: tuple[str, ...]) -> ImageList:
    """Return a list of images of no known class."""
    return ImageList(name, paths, np.full(len(paths), UNKNOWN))


def _parsed(text: str, number: int) -> Line:
    found = _NUMBERED.fullmatch(text) or _NAMED.fullmatch(text)
    path, label = (text, None) if found is None else found.groups()
    return Line(number, path, label or "")


def _number(line: Line, file: Path) -> int:
    if not _LABEL.fullmatch(line.label):
        shown = f"{line.path} {line.label}".strip()[:80]
        msg = _check.must(
            f"lines of {_LINE}",
            caller="image_lists",
            name="list",
            got=f"{shown!r} in line {line.number} of {file}",
        )
        raise ArtefactError(msg)
    # OpenOOD has other negative labels, too; here -1 is the only one.
    return max(int(line.label), UNKNOWN)


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
