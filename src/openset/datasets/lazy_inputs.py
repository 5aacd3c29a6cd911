"""Inputs in memory, or images that are read from files when they are used."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _io
from openset._types import ArtefactError

KINDS = ("image", "text", "table")
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".pgm", ".tif", ".tiff")
"""Of image files."""
# Images as well, but not read: animated, vector, raw, or not read by every Pillow.
_OTHERS = (
    *(".apng", ".avif", ".cr2", ".dcm", ".dng", ".exr", ".gif", ".heic", ".heif"),
    *(".jfif", ".jp2", ".jpe", ".jxl", ".nef", ".pbm", ".pnm", ".svg", ".tga"),
)


class DamagedImageError(ArtefactError):
    """The content of a file cannot be read as an image: another file may be fine."""


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """Image files as a sequence of ``uint8`` arrays, decoded one by one when used.

    Parameters
    ----------
    paths
        The files, in sample order.
    mode
        "RGB" gives (h, w, 3), "L" gives (h, w).
    invert
        Swap black and white: for drawings with dark ink on white, so that ink is 255 as
        in MNIST.
    names
        What errors call the files, if not by their paths.
    """

    paths: tuple[str, ...]
    mode: str = "RGB"
    invert: bool = False
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        name = (self.names or self.paths)[index]
        pixels = decode(self.paths[index], name, mode=self.mode)
        return 255 - pixels if self.invert else pixels

    def sizes(self) -> Iterator[tuple[int, int]]:
        """Yield the height and width of each image, without decoding it."""
        for path in self.paths:
            with _opened(path, path) as image:
                size = image.height, image.width
            yield size

    def take(self, rows: NDArray[np.int64]) -> "ImageFiles":
        """Return the files that `rows` selects."""
        chosen = tuple(self.paths[row] for row in rows.tolist())
        names = tuple(self.names[row] for row in rows.tolist()) if self.names else ()
        return replace(self, paths=chosen, names=names)


@dataclass(frozen=True, eq=False)
class Joined:
    """Several inputs, one after the other."""

    items: tuple[Any, ...]

    def __len__(self) -> int:
        return sum(len(item) for item in self.items)

    def __getitem__(self, index: int) -> Any:
        rest = range(len(self))[
            index
        ]  # negative counts from the end, IndexError beyond
        for item in self.items:
            if rest < len(item):
                return item[rest]
            rest -= len(item)
        raise IndexError(index)

    def take(self, rows: NDArray[np.int64]) -> "Picked":
        """Return the inputs that `rows` selects."""
        return Picked(self, rows)


@dataclass(frozen=True, eq=False)
class Picked:
    """A selection of lazy inputs, in any order."""

    inputs: Any
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return self.rows.size

    def __getitem__(self, index: int) -> Any:
        return self.inputs[int(self.rows[index])]

    def take(self, rows: NDArray[np.int64]) -> "Picked":
        """Return the inputs that `rows` selects."""
        return Picked(self.inputs, self.rows[rows])


@dataclass(frozen=True, eq=False)
class Mended:
    """Inputs with a black pixel in place of each damaged image.

    `damaged` has the numbers of those that were met so far.
    """

    inputs: Any
    damaged: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> Any:
        try:
            return self.inputs[index]
        except DamagedImageError:
            self.damaged.add(index)
            return np.zeros((1, 1, 3), np.uint8)


def is_lazy(inputs: Any) -> bool:
    """Return whether samples may be files that are read when they are used."""
    return isinstance(inputs, ImageFiles | Joined | Picked)


def take(inputs: Any, rows: NDArray[np.int64]) -> Any:
    """Return the inputs that `rows` selects, lazily where they are lazy."""
    return inputs.take(rows) if not isinstance(inputs, np.ndarray) else inputs[rows]


def join(caller: str, items: Sequence[Any]) -> Any:
    """Concatenate inputs; the samples of arrays must have one shape."""
    if len(items) == 1:
        return items[0]
    arrays = [item for item in items if isinstance(item, np.ndarray)]
    need_one_range(caller, arrays, with_files=len(arrays) < len(items))
    if len(arrays) < len(items):
        return Joined(tuple(items))
    shapes = {array.shape[1:] for array in arrays}
    if len(shapes) > 1:
        shown = " and ".join(map(str, sorted(shapes)))
        msg = (
            f"{caller}: inputs of all data sets must have one shape, got {shown}. "
            "For images: datasets.resized(dataset, side, channels=…)"
        )
        raise ValueError(msg)
    return np.concatenate(arrays)


def need_one_range(
    caller: str, arrays: Sequence[NDArray[Any]], *, with_files: bool = False
) -> None:
    """Refuse pixels as uint8 beside others, which may be scaled to [0, 1].

    Joined, the range of its pixels would tell one part from the other.
    """
    is_byte = {one.dtype == np.uint8 for one in arrays if one.ndim in (3, 4)}
    if len(is_byte | ({True} if with_files else set())) > 1:
        other = next(one.dtype for one in arrays if one.dtype != np.uint8)
        msg = _check.must(
            "uint8 in all parts and data sets, or in none",
            caller=caller,
            name="images",
            got=f"uint8 and {other}",
            remedy="Save the pixels of all of them as uint8, 0 to 255",
        )
        raise TypeError(msg)


def decode(source: Any, name: object, *, mode: str) -> NDArray[np.uint8]:
    """Decode one image file; the error for a damaged one names it."""
    with _opened(source, name) as image:
        return np.asarray(converted(image, mode))


def converted(image: Any, mode: str = "RGB") -> Any:
    """Return an image of PIL with 8 bits per channel.

    16 bits are scaled to 8: Pillow's ``convert`` clips them, which makes nearly every
    such image white. Pixels of 32 bits have no known range and are refused.
    """
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):
        scaled = np.asarray(image).astype(np.uint16) // 257
        picture = _io.optional("datasets", "PIL.Image", name="vision")
        image = picture.fromarray(scaled.astype(np.uint8))
    if image.mode in ("I", "F"):
        msg = f"pixels must have 8 or 16 bits, got 32 (mode {image.mode!r} of Pillow)"
        raise ValueError(msg)
    return image.convert(mode)


@contextmanager
def _opened(source: Any, name: object) -> Iterator[Any]:
    image = _io.optional("datasets", "PIL.Image", name="vision")
    try:
        with image.open(source) as opened:
            yield opened
    except FileNotFoundError as error:
        msg = f"datasets: no such image: {name}"
        raise FileNotFoundError(msg) from error
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises many kinds of errors for damaged files
        if isinstance(error, OSError) and error.errno is not None:
            # The system's: the disk or the rights to read, perhaps for all files.
            msg = f"datasets: {name} cannot be read ({error})"
            raise ArtefactError(msg) from error
        why = str(error).replace(f" {source!r}", "")  # it has been named
        msg = f"datasets: {name} is damaged or not an image ({why})"
        raise DamagedImageError(msg) from error


def common_side(inputs: Sequence[Any]) -> int | None:
    """Return the side of images that are all squares of one size, else None."""
    sizes = (size for one in inputs for size in _sizes(one))
    height, width = next(sizes)
    is_common = height == width and all(size == (height, width) for size in sizes)
    return height if is_common else None


def _sizes(inputs: Any) -> Iterator[tuple[int, int]]:
    if isinstance(inputs, np.ndarray):
        return iter([inputs.shape[1:3]])
    if isinstance(inputs, ImageFiles):
        return inputs.sizes()
    return (inputs[i].shape[:2] for i in range(len(inputs)))


def resize(inputs: Any, side: int, channels: int) -> NDArray[np.uint8]:
    """Resize images to one size: an array (n, side, side) or (n, side, side, 3)."""
    side = _check.positive_int("resized", "side", side)
    if channels not in (1, 3):
        got = repr(channels)
        raise ValueError(
            _check.must("1 or 3", caller="resized", name="channels", got=got)
        )
    image = _io.optional("datasets", "PIL.Image", name="vision")
    mode, tail = ("L", ()) if channels == 1 else ("RGB", (3,))
    out = np.empty((len(inputs), side, side, *tail), dtype=np.uint8)
    # Pillow works image by image; there is no batch to hand it.
    for i in range(len(inputs)):
        picture = image.fromarray(np.asarray(inputs[i])).convert(mode)
        if picture.size != (side, side):
            picture = picture.resize((side, side), image.Resampling.LANCZOS)
        out[i] = np.asarray(picture)
    return out


def image_paths(folder: Path) -> list[str]:
    """Return all image files below a folder, in code-point order of their paths."""
    found = (p for p in folder.rglob("*") if is_image(p))
    # as_posix: the separator must not change the order between platforms.
    return [str(p) for p in sorted(found, key=lambda p: p.as_posix())]


def is_image(path: PurePath) -> bool:
    """Return whether a file is an image by its ending; raise if of a kind not read."""
    ending = path.suffix.lower()
    if ending in _OTHERS:
        msg = _check.must(
            f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}",
            caller="datasets",
            name="endings of images",
            got=str(path),
            remedy="Convert it, or move it away: it would be left out",
        )
        raise ValueError(msg)
    return ending in ENDINGS
