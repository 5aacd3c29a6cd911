"""Readers of data sets that are folders of images."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from openset import _check
from openset._types import ArtefactError
from openset.datasets import lazy_inputs
from openset.datasets._checksums import FILES
from openset.datasets._compact_copies import at_28
from openset.datasets._dataset import Dataset
from openset.datasets._dataset_folder import DatasetFolder, reading
from openset.datasets.lazy_inputs import ImageFiles, image_paths

Listing = list[tuple[str, str]]  # (image file, class name)

_PARTS = {
    "train": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
}


def from_listings(
    listings: Mapping[str, Listing],
    classes: Sequence[str],
    *,
    name: str,
    mode: str = "RGB",
    invert: bool = False,
) -> Dataset:
    """Build a data set from the image files of each part ("" = no official part)."""
    number = {c: i for i, c in enumerate(classes)}
    paths: list[str] = []
    labels: list[int] = []
    parts = {}
    for part, listing in listings.items():
        if not listing:
            msg = (
                f"datasets: {name} must have images in its {part or 'folder'}, got none"
            )
            raise ArtefactError(msg)
        if part:
            parts[part] = np.arange(len(paths), len(paths) + len(listing))
        strangers = sorted({c for _, c in listing} - set(number))
        if strangers:
            msg = (
                f"datasets: {name} must have images of its {len(classes)} classes, got "
                f"{strangers[0]!r} in its {part or 'folder'}"
            )
            raise ArtefactError(msg)
        paths += [path for path, _ in listing]
        labels += [number[c] for _, c in listing]
    return Dataset(
        inputs=ImageFiles(tuple(paths), mode, invert),
        labels=np.array(labels, dtype=np.int64),
        classes=tuple(classes),
        kind="image",
        name=name,
        parts=parts,
    )


def class_folders(folder: Path) -> list[str]:
    """Return the names of the class folders, in code-point order."""
    if not folder.is_dir():
        msg = f"datasets: no such folder: {folder}"
        raise FileNotFoundError(msg)
    names = sorted(p.name for p in folder.iterdir() if p.is_dir())
    names = [name for name in names if not name.startswith(".")]
    if not names:
        msg = (
            f"datasets: {folder} must hold one folder per class, got none. Expected "
            f"{folder / 'CLASS' / 'image.jpg'}"
        )
        raise ArtefactError(msg)
    return names


def list_folder(folder: Path) -> Listing:
    """List a folder that has one folder of images per class."""
    names = class_folders(folder)
    return [(path, c) for c in names for path in image_paths(folder / c)]


def image_folder(path: str | Path) -> Dataset:
    """Read a folder of images: ``CLASS/image.jpg``, or ``PART/CLASS/image.jpg``.

    Parts are recognised by name: train; val, valid or validation; test. The classes are
    the folder names in code-point order, over all parts. A folder with ``train`` and
    ``val`` but no ``test`` has ``val`` as its test part, as ImageNet is used. Parts
    beside other folders, or by other names such as ``Train``, are refused.

    Parameters
    ----------
    path
        The folder.
    name
        Name of the data set; by default the folder's name.
    """
    folder = Path(path)
    found = class_folders(folder)
    name = folder.resolve().name
    if set(found) - set(_PARTS):
        _no_parts_among(folder, found)
        return from_listings({"": list_folder(folder)}, found, name=name)
    if len({_PARTS[part] for part in found}) < len(found):
        msg = f"datasets: {folder} must have one validation part, got several: {found}"
        raise ArtefactError(msg)
    listings = {_PARTS[part]: list_folder(folder / part) for part in found}
    if "test" not in listings and "validation" in listings and "train" in listings:
        listings["test"] = listings.pop("validation")
    classes = sorted({c for listing in listings.values() for _, c in listing})
    return from_listings(listings, classes, name=name)


def _no_parts_among(folder: Path, found: list[str]) -> None:
    """Refuse parts that would be read as classes: folders of folders, by name."""
    for name in found:
        is_part = name.lower() in {*_PARTS, "training", "testing"}
        if is_part and any(p.is_dir() for p in (folder / name).iterdir()):
            msg = _check.must(
                "CLASS/image.jpg, or PART/CLASS/image.jpg with the parts train, val "
                "and test alone",
                caller="datasets",
                name=str(folder),
                got=f"{name} with folders in it, beside "
                f"{', '.join(one for one in found if one != name)[:60] or 'nothing'}",
                remedy="Rename the parts, and move other folders away",
            )
            raise ArtefactError(msg)


def lines(path: Path) -> list[str]:
    """Return the non-empty lines of a text file."""
    if not path.exists():
        msg = f"datasets: no such file: {path}. Unpack the official archive again"
        raise FileNotFoundError(msg)
    with reading(path, "a text file"):
        text = path.read_text("utf-8")
    return [line.strip() for line in text.splitlines() if line.strip()]


def tinyimagenet(place: DatasetFolder) -> Dataset:
    """Read TinyImageNet: train, and the official validation images as test part.

    The official test images have no labels. Classes are numbered by the rank of their
    WordNet id.
    """
    folder = place.tree("tiny-imagenet-200", *FILES["tinyimagenet"])
    classes = class_folders(folder / "train")
    annotations = folder / "val" / "val_annotations.txt"
    test: Listing = []
    for line in lines(annotations):
        with reading(annotations, "the list of validation images"):
            image, wnid, *_ = line.split("\t")
            test.append((str(folder / "val" / "images" / image), wnid))
    train = list_folder(folder / "train")
    return from_listings({"train": train, "test": test}, classes, name="tinyimagenet")


def tinyimagenet32_val(place: DatasetFolder) -> Dataset:
    """Read the validation images of TinyImageNet at 32 pixels, as test part."""
    large = tinyimagenet(place).part("test")
    return replace(
        large,
        inputs=lazy_inputs.resize(large.inputs, 32, 3),
        name="tinyimagenet32_val",
        label_set="tinyimagenet",
        parts={"test": np.arange(len(large))},
        note="resized from 64 to 32 pixels; test part only",
    )


def cub(place: DatasetFolder) -> Dataset:
    """Read CUB-200-2011 with its official train and test parts."""
    folder = place.tree("CUB_200_2011", *FILES["cub"])
    tables = {}
    for table in ("images", "image_class_labels", "train_test_split", "classes"):
        path = folder / f"{table}.txt"
        with reading(path, "a table of CUB"):
            tables[table] = dict(line.split(" ", 1) for line in lines(path))
    ids = sorted(tables["classes"], key=int)
    listings: dict[str, Listing] = {"train": [], "test": []}
    with reading(folder, "CUB_200_2011"):
        for image, path_name in tables["images"].items():
            part = "train" if tables["train_test_split"][image] == "1" else "test"
            name = tables["classes"][tables["image_class_labels"][image]]
            listings[part].append((str(folder / "images" / path_name), name))
    return from_listings(listings, [tables["classes"][i] for i in ids], name="cub")


def aircraft(place: DatasetFolder) -> Dataset:
    """Read FGVC-Aircraft at variant level: trainval as train, test as test.

    Variants are numbered by the code-point order of their names, as the published
    open-set splits number them; the official list has another order.
    """
    folder = place.tree("fgvc-aircraft-2013b", *FILES["fgvc-aircraft"]) / "data"
    classes = sorted(lines(folder / "variants.txt"))
    listings: dict[str, Listing] = {}
    for part, official in (("train", "trainval"), ("test", "test")):
        path = folder / f"images_variant_{official}.txt"
        with reading(path, "a list of images and variants"):
            pairs = [line.split(" ", 1) for line in lines(path)]
            listings[part] = [
                (str(folder / "images" / f"{image}.jpg"), variant)
                for image, variant in pairs
            ]
    return from_listings(listings, classes, name="fgvc-aircraft")


def cars(place: DatasetFolder) -> Dataset:
    """Read Stanford Cars: images, devkit and the test labels published later."""
    from scipy.io import loadmat  # noqa: PLC0415  # slow to import, needed here only

    files = FILES["stanford-cars"]
    markers = ("cars_train", "cars_test", "devkit", files[3].name)
    missing = [
        file
        for file, marker in zip(files, markers, strict=True)
        if place.find(marker) is None and place.find(file.name) is None
    ]
    if missing:
        raise FileNotFoundError(place.how_to_get(missing))
    train = place.tree("cars_train", files[0])
    test = place.tree("cars_test", files[1])
    devkit = place.tree("devkit", files[2])
    (labels,) = place.files(files[3])
    meta = devkit / "cars_meta.mat"
    with reading(meta, "the devkit of Stanford Cars"):
        classes = [str(c) for c in loadmat(meta, squeeze_me=True)["class_names"]]
    listings: dict[str, Listing] = {}
    for part, images, table in (
        ("train", train, devkit / "cars_train_annos.mat"),
        ("test", test, labels),
    ):
        with reading(table, "a table of Stanford Cars"):
            rows = np.atleast_1d(loadmat(table, squeeze_me=True)["annotations"])
            listings[part] = [
                (str(images / str(row["fname"])), classes[int(row["class"]) - 1])
                for row in rows
            ]
    return from_listings(listings, classes, name="stanford-cars")


def dtd(place: DatasetFolder) -> Dataset:
    """Read the Describable Textures with the first of the ten official partitions."""
    folder = place.tree("dtd", *FILES["dtd"])
    listings: dict[str, Listing] = {}
    for part, official in (("train", "train"), ("validation", "val"), ("test", "test")):
        names = lines(folder / "labels" / f"{official}1.txt")
        listings[part] = [
            (str(folder / "images" / name), name.partition("/")[0]) for name in names
        ]
    classes = sorted({c for listing in listings.values() for _, c in listing})
    return from_listings(listings, classes, name="dtd")


def places365(place: DatasetFolder) -> Dataset:
    """Read the 36,500 validation images of Places365 as test part.

    No published open-set protocol uses the 1.8 million training images.
    """
    images = place.tree("val_256", FILES["places365"][0])
    table = place.tree("categories_places365.txt", FILES["places365"][1])
    with reading(table, "the list of categories"):
        pairs = [line.rsplit(" ", 1) for line in lines(table)]
        classes = [name for name, _ in sorted(pairs, key=lambda p: int(p[1]))]
    path = table.with_name("places365_val.txt")
    with reading(path, "the list of validation images"):
        rows = [line.split() for line in lines(path)]
        listing = [(str(images / image), classes[int(i)]) for image, i in rows]
    return from_listings({"test": listing}, classes, name="places365")


def sun397(place: DatasetFolder) -> Dataset:
    """Read SUN397, all images; no official parts."""
    folder = place.tree("SUN397", *FILES["sun397"])
    # ClassName.txt lists /a/abbey and the like; images lie in a/abbey/sun_….jpg.
    names = [line.removeprefix("/") for line in lines(folder / "ClassName.txt")]
    listing = [
        (path, name.partition("/")[2])
        for name in names
        for path in image_paths(folder / name)
        # ".../outdoor" inside a class folder is a class of its own
        if Path(path).parent == folder / name
    ]
    classes = [name.partition("/")[2] for name in names]
    return from_listings({"": listing}, classes, name="sun397")


def imagenette(place: DatasetFolder) -> Dataset:
    """Read Imagenette (full size): train, and val as test part."""
    folder = place.tree("imagenette2", *FILES["imagenette"])
    classes = class_folders(folder / "train")
    listings = {"train": list_folder(folder / "train")}
    listings["test"] = list_folder(folder / "val")
    return from_listings(listings, classes, name="imagenette")


def imagenet(place: DatasetFolder) -> Dataset:
    """Read ILSVRC2012 from folders per WordNet id: train (if there) and val as test."""
    val = place.path / "val"
    if not val.is_dir():
        msg = (
            f"datasets.load: 'imagenet' is not under {place.root}; its terms forbid a "
            "direct download. Get ILSVRC2012_img_val.tar "
            "(md5:29b22e2961454d5413ddabcf34fc5622) and, for training, "
            "ILSVRC2012_img_train.tar (md5:1d675b47d978889d74fa0da5fadfb00e) from "
            "https://image-net.org, and sort the images into\n"
            f"  {place.path / 'val' / 'n01440764' / 'ILSVRC2012_val_00000293.JPEG'}\n"
            f"  {place.path / 'train' / 'n01440764' / 'n01440764_10026.JPEG'}"
        )
        raise FileNotFoundError(msg)
    classes = class_folders(val)
    listings = {}
    if (place.path / "train").is_dir():
        listings["train"] = list_folder(place.path / "train")
    listings["test"] = list_folder(val)
    return from_listings(listings, classes, name="imagenet")


def omniglot(place: DatasetFolder) -> Dataset:
    """Read Omniglot: background as train, evaluation as test (other characters).

    Ink is 255, as in MNIST; the files have dark ink on white.
    """
    listings = {}
    for part, folder, file in (
        ("train", "images_background", FILES["omniglot"][0]),
        ("test", "images_evaluation", FILES["omniglot"][1]),
    ):
        root = place.tree(folder, file)
        listings[part] = [
            (path, f"{alphabet}/{character}")
            for alphabet in class_folders(root)
            for character in class_folders(root / alphabet)
            for path in image_paths(root / alphabet / character)
        ]
    classes = list(dict.fromkeys(c for part in listings.values() for _, c in part))
    return from_listings(listings, classes, name="omniglot", mode="L", invert=True)


def omniglot28(place: DatasetFolder) -> Dataset:
    """Read Omniglot at 28 pixels, the size of MNIST."""
    return at_28(omniglot(place), "omniglot28")
