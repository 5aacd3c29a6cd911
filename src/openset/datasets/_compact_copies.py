"""Readers of compact copies: one compressed file for a whole data set."""

import io
import lzma
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset._types import ArtefactError
from openset.datasets import lazy_inputs
from openset.datasets._cifar_png import CLASSES
from openset.datasets._dataset import Dataset, stacked
from openset.datasets._dataset_folder import DatasetFolder, reading
from openset.datasets._download import File, check

Arrays = dict[str, NDArray[Any]]

_DIGITS = tuple("0123456789")
_LOSSY = "lossy copy (WebP, quality 75): published results used other pixels"

# Omniglot: alphabets and their numbers of characters, in the order of the official ids.
_BACKGROUND = (
    ("Arcadian", 26),
    ("Armenian", 41),
    ("Asomtavruli_(Georgian)", 40),
    ("Balinese", 24),
    ("Bengali", 46),
    ("Blackfoot_(Canadian_Aboriginal_Syllabics)", 14),
    ("Braille", 26),
    ("Cyrillic", 33),
    ("Early_Aramaic", 22),
    ("Syriac_(Estrangelo)", 23),
    ("Anglo-Saxon_Futhorc", 29),
    ("Futurama", 26),
    ("Grantha", 43),
    ("Greek", 24),
    ("Gujarati", 48),
    ("Hebrew", 22),
    ("Japanese_(hiragana)", 52),
    ("Inuktitut_(Canadian_Aboriginal_Syllabics)", 16),
    ("Malay_(Jawi_-_Arabic)", 40),
    ("Japanese_(katakana)", 47),
    ("Korean", 40),
    ("Latin", 26),
    ("Alphabet_of_the_Magi", 20),
    ("Mkhedruli_(Georgian)", 41),
    ("Burmese_(Myanmar)", 34),
    ("N_Ko", 33),
    ("Ojibwe_(Canadian_Aboriginal_Syllabics)", 14),
    ("Sanskrit", 42),
    ("Tagalog", 17),
    ("Tifinagh", 55),
)
_EVALUATION = (
    ("Angelic", 20),
    ("Atemayar_Qelisayer", 26),
    ("Atlantean", 26),
    ("Aurek-Besh", 26),
    ("Avesta", 26),
    ("Ge_ez", 26),
    ("Glagolitic", 45),
    ("Gurmukhi", 45),
    ("Kannada", 41),
    ("Keble", 26),
    ("Malayalam", 47),
    ("Manipuri", 40),
    ("Mongolian", 30),
    ("Old_Church_Slavonic_(Cyrillic)", 45),
    ("Oriya", 46),
    ("Sylheti", 28),
    ("Syriac_(Serto)", 23),
    ("Tengwar", 25),
    ("Tibetan", 42),
    ("ULOG", 26),
)


SHIPPED = Path(__file__).with_name("files")


@dataclass(frozen=True, slots=True)
class CompactCopy:
    """A compressed file, and the function that reads a data set from it.

    A file that `is_shipped` comes with openset; others must be provided by the user.
    """

    file: File
    read: Callable[[str, Path], Dataset]
    is_shipped: bool = False

    def find(self, place: DatasetFolder) -> Path | None:
        """Return the file, if it is there."""
        if self.is_shipped:
            return SHIPPED / self.file.name
        return place.find(self.file.name)

    def load(self, place: DatasetFolder, name: str) -> Dataset:
        """Read the data set from the file; with `verify`, compare its checksum."""
        if not self.is_shipped:
            (path,) = place.files(self.file)
            return self.read(name, path)
        path = SHIPPED / self.file.name
        if place.verify:
            check(path, self.file.digest)
        return self.read(name, path)


def content(path: Path) -> bytes:
    """Return the bytes of a file, decompressed if it is an ``.xz``."""
    with reading(path, "an .xz file"):
        raw = path.read_bytes()
        return lzma.decompress(raw) if path.suffix == ".xz" else raw


def arrays_of(path: Path, *wanted: str) -> Arrays:
    """Read arrays of an ``.npz``, compressed with xz or not; nothing is unpickled."""
    stream = io.BytesIO(content(path))
    with (
        reading(path, "a .npz archive"),
        np.load(stream, allow_pickle=False) as archive,
    ):
        return {name: archive[name] for name in wanted}


def mnist(name: str, path: Path) -> Dataset:
    """Read MNIST from one ``.npz``."""
    z = arrays_of(path, "train_x", "train_y", "test_x", "test_y")
    parts = {p: (z[f"{p}_x"], z[f"{p}_y"]) for p in ("train", "test")}
    return stacked(parts, name=name, classes=_DIGITS, kind="image")


def cifar10(name: str, path: Path) -> Dataset:
    """Read CIFAR-10 from WebP images."""
    return _webp_parts(name, path, CLASSES)


def svhn(name: str, path: Path) -> Dataset:
    """Read SVHN from WebP images."""
    return _webp_parts(name, path, _DIGITS)


def _webp_parts(name: str, path: Path, classes: tuple[str, ...]) -> Dataset:
    wanted = [f"{part}_{key}" for part in ("train", "test") for key in "bny"]
    z = arrays_of(path, *wanted)
    parts = {
        part: (webp(path, z[f"{part}_b"], z[f"{part}_n"]), z[f"{part}_y"])
        for part in ("train", "test")
    }
    return stacked(parts, name=name, classes=classes, kind="image", note=_LOSSY)


def tinyimagenet(name: str, path: Path) -> Dataset:
    """Read the validation images of TinyImageNet at 32 pixels, as test part."""
    z = arrays_of(path, "test_b", "test_n", "test_y", "names", "wnid")
    with reading(path, "a packaged TinyImageNet"):
        classes = tuple(z["names"].tobytes().decode().split("\n"))
        ids = tuple(wnid.decode() for wnid in z["wnid"].tolist())
    images = webp(path, z["test_b"], z["test_n"])
    return stacked(
        {"test": (images, z["test_y"])},
        name=name,
        classes=classes,
        kind="image",
        ids=ids,
        label_set="tinyimagenet",
        note=f"{_LOSSY}; 32 pixels instead of 64; test part only",
    )


def webp(path: Path, blob: NDArray[Any], sizes: NDArray[Any]) -> NDArray[np.uint8]:
    """Decode WebP images stored one after the other, each without its RIFF head."""
    raw = blob.tobytes()
    ends = np.cumsum(sizes.astype(np.int64)).tolist()
    if not ends or ends[-1] != len(raw):
        total = ends[-1] if ends else 0
        msg = f"datasets: {path} must hold {total} image bytes, got {len(raw)}"
        raise ArtefactError(msg)
    out = np.empty((len(ends), 32, 32, 3), dtype=np.uint8)
    start = 0
    # The codec takes one image at a time.
    for i, end in enumerate(ends):
        body = raw[start:end]
        body_size, pad = len(body), b"\0" * (len(body) & 1)
        head = b"RIFF" + (12 + body_size + len(pad)).to_bytes(4, "little")
        head += b"WEBPVP8 " + body_size.to_bytes(4, "little")
        pixels = lazy_inputs.decode(
            io.BytesIO(head + body + pad), f"image {i} of {path}", mode="RGB"
        )
        if pixels.shape != out.shape[1:]:
            msg = f"datasets: image {i} of {path} must be 32 x 32, got {pixels.shape}"
            raise ArtefactError(msg)
        out[i] = pixels
        start = end
    return out


def omniglot(name: str, path: Path) -> Dataset:
    """Read Omniglot from one bit per pixel; ink is 255."""
    z = arrays_of(path, "background", "evaluation")
    classes = tuple(
        f"{alphabet}/character{i + 1:02d}"
        for alphabet, n in (*_BACKGROUND, *_EVALUATION)
        for i in range(n)
    )
    parts, first = {}, 0
    for part, key, alphabets in (
        ("train", "background", _BACKGROUND),
        ("test", "evaluation", _EVALUATION),
    ):
        n_characters = sum(n for _, n in alphabets)
        with reading(path, "a packaged Omniglot"):
            bits = np.unpackbits(z[key], axis=1, count=105 * 105)
            images = (1 - bits.reshape(-1, 105, 105)) * np.uint8(255)
        if len(images) != 20 * n_characters:
            msg = (
                f"datasets: {path} must hold 20 drawings of {n_characters} characters, "
                f"got {len(images)} images"
            )
            raise ArtefactError(msg)
        parts[part] = (images, np.arange(first, first + n_characters).repeat(20))
        first += n_characters
    return stacked(parts, name=name, classes=classes, kind="image")


def omniglot28(name: str, path: Path) -> Dataset:
    """Read Omniglot at 28 pixels, the size of MNIST."""
    return at_28(omniglot("omniglot", path), name)


def at_28(large: Dataset, name: str) -> Dataset:
    """Resize Omniglot to the size of MNIST."""
    return replace(
        large,
        inputs=lazy_inputs.resize(large.inputs, 28, 1),
        name=name,
        note="resized from 105 to 28 pixels",
    )
