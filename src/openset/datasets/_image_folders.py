"""Readers of data sets that are folders of images."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from openset import _check
from openset._types import ArtefactError
from openset.datasets import lazy_inputs
from openset.datasets._compact_copies import at_28
from openset.datasets._dataset import Dataset
from openset.datasets._dataset_folder import DatasetFolder, reading
from openset.datasets._download import File
from openset.datasets.lazy_inputs import ImageFiles, image_paths

Listing = list[tuple[str, str]]  # (image file, class name)

_PARTS = {
    "train": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
}

TINYIMAGENET = (
    File(
        "tiny-imagenet-200.zip",
        "md5:90528d7ca1a48142e341f4ef8d21d0de",
        ("http://cs231n.stanford.edu/tiny-imagenet-200.zip",),
    ),
)
CUB = (
    File(
        "CUB_200_2011.tgz",
        "md5:97eceeb196236b17998738112f37df78",
        ("https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",),
    ),
)
AIRCRAFT = (
    File(
        "fgvc-aircraft-2013b.tar.gz",
        "md5:d4acdd33327262359767eeaa97a4f732",
        (
            "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives/"
            "fgvc-aircraft-2013b.tar.gz",
        ),
    ),
)
# The publisher's addresses are gone: users have to bring these four files.
CARS = (
    File("cars_train.tgz", "md5:065e5b463ae28d29e77c1b4b166cfe61"),
    File("cars_test.tgz", "md5:4ce7ebf6a94d07f1952d94dd34c4d501"),
    File("car_devkit.tgz", "md5:c3b158d763b6e2245038c8ad08e45376"),
    File("cars_test_annos_withlabels.mat", "md5:b0a2b23655a3edd16d84508592a98d10"),
)
DTD = (
    File(
        "dtd-r1.0.1.tar.gz",
        "md5:fff73e5086ae6bdbea199a49dfb8a4c1",
        ("https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz",),
    ),
)
_PLACES = "http://data.csail.mit.edu/places/places365/"
PLACES365 = (
    File(
        "val_256.tar",
        "md5:e27b17d8d44f4af9a78502beb927f808",
        (_PLACES + "val_256.tar",),
    ),
    File(
        "filelist_places365-standard.tar",
        "md5:35a0585fee1fa656440f3ab298f8479c",
        (_PLACES + "filelist_places365-standard.tar",),
    ),
)
SUN397 = (
    File(
        "SUN397.tar.gz",
        "md5:8ca2778205c41d23104230ba66911c7a",
        ("http://vision.princeton.edu/projects/2010/SUN/SUN397.tar.gz",),
    ),
)
IMAGENETTE = (
    File(
        "imagenette2.tgz",
        "md5:fe2fc210e6bb7c5664d602c3cd71e612",
        ("https://s3.amazonaws.com/fast-ai-imageclas/imagenette2.tgz",),
    ),
)
_OMNIGLOT = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/"
OMNIGLOT = (
    File(
        "images_background.zip",
        "md5:68d2efa1b9178cc56df9314c21c6e718",
        (_OMNIGLOT + "images_background.zip",),
    ),
    File(
        "images_evaluation.zip",
        "md5:6b91aef0f799c5bb55b94e3f2daec811",
        (_OMNIGLOT + "images_evaluation.zip",),
    ),
)


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


def image_folder(path: str | Path, *, name: str = "") -> Dataset:
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
    label = name or folder.resolve().name
    if set(found) - set(_PARTS):
        _no_parts_among(folder, found)
        return from_listings({"": list_folder(folder)}, found, name=label)
    if len({_PARTS[part] for part in found}) < len(found):
        msg = f"datasets: {folder} must have one validation part, got several: {found}"
        raise ArtefactError(msg)
    listings = {_PARTS[part]: list_folder(folder / part) for part in found}
    if "test" not in listings and "validation" in listings and "train" in listings:
        listings["test"] = listings.pop("validation")
    classes = sorted({c for listing in listings.values() for _, c in listing})
    return from_listings(listings, classes, name=label)


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
    folder = place.tree("tiny-imagenet-200", *TINYIMAGENET)
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
    folder = place.tree("CUB_200_2011", *CUB)
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
    folder = place.tree("fgvc-aircraft-2013b", *AIRCRAFT) / "data"
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

    missing = [
        file
        for file, marker in zip(
            CARS, ("cars_train", "cars_test", "devkit", CARS[3].name), strict=True
        )
        if place.find(marker) is None and place.find(file.name) is None
    ]
    if missing:
        raise FileNotFoundError(place.how_to_get(missing))
    train = place.tree("cars_train", CARS[0])
    test = place.tree("cars_test", CARS[1])
    devkit = place.tree("devkit", CARS[2])
    (labels,) = place.files(CARS[3])
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
    folder = place.tree("dtd", *DTD)
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
    images = place.tree("val_256", PLACES365[0])
    table = place.tree("categories_places365.txt", PLACES365[1])
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
    folder = place.tree("SUN397", *SUN397)
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
    folder = place.tree("imagenette2", *IMAGENETTE)
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
        ("train", "images_background", OMNIGLOT[0]),
        ("test", "images_evaluation", OMNIGLOT[1]),
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
