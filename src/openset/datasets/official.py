"""Readers of the official files of data sets, and of those that come with openset."""

import gzip
import io
import json
import lzma
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset._types import ArtefactError
from openset.datasets.dataset import Dataset, consecutive
from openset.datasets.own import (
    Listing,
    class_folders,
    from_arrays,
    from_listings,
    from_pairs,
    image_folder,
    list_folder,
)
from openset.datasets.places import Place, reading

_DIGITS = tuple("0123456789")
_BUNDLED = Path(__file__).with_name("files")
_LETTER_TRAIN = 16_000  # the convention of the UCI set: the first rows train


def digits(place: Place) -> Dataset:
    """Return scikit-learn's digits: 1,797 rows of 8 x 8 pixels, values 0 to 16.

    There are no official parts: a fixed 70 % of each class train, 30 % test.
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415  # slow to import

    found = load_digits()
    inputs, labels = found.data.astype(np.float32), found.target
    found = from_arrays(inputs, labels, classes=_DIGITS, name=place.name)
    return found.with_parts(test=0.3)


def table(place: Place) -> Dataset:
    """Read one of the UCI sets, which are bundled.

    Only `letter` has official parts: of the others a fixed 30 % of each class test.
    """
    raw = lzma.decompress((_BUNDLED / "uci.npz.xz").read_bytes())
    with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
        inputs, labels, classes = (arrays[f"{place.name}_{key}"] for key in "xyc")
    about = {"classes": classes.tolist(), "name": place.name}
    found = from_arrays(inputs.astype(np.float32), labels, **about)
    if place.name != "letter":
        return found.with_parts(test=0.3)
    sizes = {"train": _LETTER_TRAIN, "test": len(found) - _LETTER_TRAIN}
    return replace(found, parts=consecutive(sizes))


def intents(place: Place) -> Dataset:
    """Read CLINC150 or BANKING77, which are bundled.

    Out-of-scope texts of CLINC150 are labelled -1 and named 'oos' in a protocol.
    """
    path = _BUNDLED / f"{place.name}.json.xz"
    full = json.loads(lzma.decompress(path.read_bytes()))
    if place.name == "banking77":
        return from_pairs({p: full[p] for p in ("train", "test")}, name=place.name)
    full = full["data_full"]
    keys = {"train": "train", "validation": "val", "test": "test"}
    return from_pairs(
        {part: full[key] + full[f"oos_{key}"] for part, key in keys.items()},
        name=place.name,
        unlisted="oos",
    )


def mnist(place: Place) -> Dataset:
    """Read MNIST from its four idx files."""
    x, y, test_x, test_y = map(_idx, place.get(*place.files))
    return from_arrays(x, y, test=(test_x, test_y), classes=_DIGITS, name="mnist")


def _idx(path: Path) -> NDArray[np.uint8]:
    with reading(path):
        raw = gzip.decompress(path.read_bytes())
        if raw[:3] != b"\0\0\x08":
            msg = "it does not begin with 00 00 08"
            raise ValueError(msg)
        shape = tuple(np.frombuffer(raw, ">u4", raw[3], offset=4).tolist())
        body = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3])
        return body.reshape(shape)


def svhn(place: Place) -> Dataset:
    """Read SVHN's cropped digits (no extra part)."""
    parts = []
    for path in place.get(*place.files):
        content = _mat(path)
        with reading(path):
            images = np.ascontiguousarray(content["X"].transpose(3, 0, 1, 2))
            labels = content["y"].ravel().astype(np.int64) % 10  # it writes 0 as 10
        parts.append((images, labels))
    train, test = parts
    return from_arrays(*train, test=test, classes=_DIGITS, name="svhn")


def _mat(path: Path, **options: Any) -> Any:
    from scipy.io import loadmat  # noqa: PLC0415  # slow to import

    with reading(path):
        return loadmat(path, **options)


def cifar(place: Place) -> Dataset:
    """Read the binary CIFAR-10 or CIFAR-100, with its fine labels.

    The version for Python is pickled, which is never loaded.
    """
    batches = [f"data_batch_{i}.bin" for i in range(1, 6)]
    names, n_labels = "batches.meta.txt", 1
    files = [batches, ["test_batch.bin"]]
    if place.name == "cifar100":
        names, n_labels = "fine_label_names.txt", 2
        files = [["train.bin"], ["test.bin"]]
    (archive,) = place.get(*place.files)
    with reading(archive):
        raw = {}
        with tarfile.open(archive) as tar:
            for member in tar:
                if (stream := tar.extractfile(member)) is not None:
                    raw[Path(member.name).name] = stream.read()
        parts = []
        for wanted in files:
            flat = np.frombuffer(b"".join(raw[name] for name in wanted), np.uint8)
            rows = flat.reshape(-1, n_labels + 3 * 32 * 32)
            images = rows[:, n_labels:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
            labels = rows[:, n_labels - 1]
            parts.append((np.ascontiguousarray(images), labels))
        classes = raw[names].decode("ascii").split()
    train, test = parts
    return from_arrays(*train, test=test, classes=classes, name=place.name)


def omniglot(place: Place) -> Dataset:
    """Read Omniglot: background as train, evaluation as test (other characters).

    Ink is 255, as in MNIST; the files have dark ink on white.
    """
    listings: dict[str, Listing] = {}
    for part, file in zip(("train", "test"), place.files, strict=True):
        root = place.tree(file.name.removesuffix(".zip"), file)
        listings[part] = [
            (path, f"{alphabet}/{character}")
            for alphabet in class_folders(root)
            for path, character in list_folder(root / alphabet)
        ]
    classes = list(dict.fromkeys(c for one in listings.values() for _, c in one))
    found = from_listings(listings, classes, name="omniglot")
    return replace(found, inputs=replace(found.inputs, mode="L", invert=True))


def tinyimagenet(place: Place) -> Dataset:
    """Read TinyImageNet: train, and the official validation images as test part.

    The official test images have no labels. Classes are numbered by the rank of their
    WordNet id.
    """
    top = place.tree("tiny-imagenet-200", *place.files)
    train = list_folder(top / "train")
    rows = _rows(top / "val" / "val_annotations.txt", "\t")
    test = [(str(top / "val" / "images" / row[0]), row[1]) for row in rows]
    classes = class_folders(top / "train")
    return from_listings({"train": train, "test": test}, classes, name="tinyimagenet")


def cub(place: Place) -> Dataset:
    """Read CUB-200-2011 with its official train and test parts."""
    top = place.tree("CUB_200_2011", *place.files)
    tables = ("images", "image_class_labels", "train_test_split", "classes")
    images, labels, is_train, names = (
        dict(_rows(top / f"{one}.txt", " ")) for one in tables
    )
    listings: dict[str, Listing] = {"train": [], "test": []}
    with reading(top):
        for image, path in images.items():
            part = "train" if is_train[image] == "1" else "test"
            listings[part].append((str(top / "images" / path), names[labels[image]]))
    classes = [names[i] for i in sorted(names, key=int)]
    return from_listings(listings, classes, name="cub")


def aircraft(place: Place) -> Dataset:
    """Read FGVC-Aircraft at variant level: trainval as train, test as test.

    Variants are numbered by the code-point order of their names, as the published
    open-set splits number them; the official list has another order.
    """
    top = place.tree("fgvc-aircraft-2013b", *place.files) / "data"
    listings = {
        part: [
            (str(top / "images" / f"{image}.jpg"), variant)
            for image, variant in _rows(top / f"images_variant_{official}.txt", " ")
        ]
        for part, official in (("train", "trainval"), ("test", "test"))
    }
    classes = sorted(_lines(top / "variants.txt"))
    return from_listings(listings, classes, name="fgvc-aircraft")


def cars(place: Place) -> Dataset:
    """Read Stanford Cars: images, devkit and the test labels published later."""
    files = place.files
    folders = ("cars_train", "cars_test", "devkit")
    train, test, devkit = map(place.tree, folders, files[:3])
    (labels,) = place.get(files[3])
    meta = _mat(devkit / "cars_meta.mat", squeeze_me=True)
    listings: dict[str, Listing] = {}
    with reading(devkit):
        classes = [str(c) for c in meta["class_names"]]
        for part, images, path in (
            ("train", train, devkit / "cars_train_annos.mat"),
            ("test", test, labels),
        ):
            rows = np.atleast_1d(_mat(path, squeeze_me=True)["annotations"])
            listings[part] = [
                (str(images / str(row["fname"])), classes[int(row["class"]) - 1])
                for row in rows
            ]
    return from_listings(listings, classes, name="stanford-cars")


def unknown_images(place: Place) -> Dataset:
    """Read a folder of images, one folder per class or none, as test part."""
    found = image_folder(place.folder())
    rows = np.arange(len(found))
    return replace(found, name=place.name, label_set=place.name, parts={"test": rows})


def imagenetv2(place: Place) -> Dataset:
    """Read ImageNetV2 (matched frequency), with the classes of ImageNet.

    Its folders are numbered 0 to 999 in the order of the WordNet ids of ImageNet, which
    are the names of the folders of ImageNet itself, under the same root.
    """
    listing = list_folder(place.folder())
    known = Place(place.root, "imagenet", folders=("val", "train"))
    classes = class_folders(known.folder())
    wnids = dict(zip(map(str, range(len(classes))), classes, strict=True))
    listing = [(path, wnids.get(number, number)) for path, number in listing]
    made = from_listings({"test": listing}, classes, name=place.name)
    return replace(made, label_set="imagenet")


def imagenet(place: Place) -> Dataset:
    """Read ILSVRC2012 from folders per WordNet id: train (if there) and val as test."""
    listings = {"test": list_folder(place.folder())}
    classes = class_folders(place.folder())
    if (place.path / "train").is_dir():
        listings = {"train": list_folder(place.path / "train")} | listings
    return from_listings(listings, classes, name="imagenet")


def _lines(path: Path) -> list[str]:
    with reading(path):
        lines = path.read_text("utf-8").splitlines()
    return [line.strip() for line in lines if line.strip()]


def _rows(path: Path, sign: str) -> list[tuple[str, str]]:
    """Return the first two columns of a table; the second may hold spaces."""
    rows = [line.split(sign, 1 if sign == " " else 2) for line in _lines(path)]
    if any(len(row) < 2 for row in rows):
        msg = f"datasets: {path} is damaged: a line has fewer than two columns"
        raise ArtefactError(msg)
    return [(row[0], row[1]) for row in rows]
