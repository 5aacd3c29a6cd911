"""Readers of image sets that are used to test ImageNet classifiers.

None of them is downloaded: their publishers offer no file with a checksum that we could
confirm. They are read from the folders that their archives unpack to.
"""

from dataclasses import replace
from pathlib import Path

from openset._types import UNKNOWN, ArtefactError
from openset.datasets import image_lists
from openset.datasets._dataset import Dataset
from openset.datasets._dataset_folder import DatasetFolder
from openset.datasets._image_folders import (
    Listing,
    class_folders,
    from_listings,
    lines,
    list_folder,
)
from openset.datasets.lazy_inputs import image_paths

_WNIDS = "imagenet_wnids.txt"


def unknown_images(place: DatasetFolder, folders: tuple[str, ...]) -> Dataset:
    """Read a set of images that serve as unknowns, as its test part.

    The first of `folders` that exists is read: with one folder per class, or with
    images only, which then form one class, named after the set. A list ``NAME.txt``
    beside it names the images to take, one per line: a path inside the folder (leading
    folders that it lacks are ignored), and, if known, the class; -1 means no class.
    """
    folder = _found(place, folders)
    listed = place.find(f"{place.name}.txt")
    if listed is not None:
        listing = _from_list(listed, folder, place.name)
    elif any(path.is_dir() for path in folder.iterdir()):
        listing = list_folder(folder)
    else:
        listing = [(path, place.name) for path in image_paths(folder)]
    classes = sorted({name for _, name in listing})
    return from_listings({"test": listing}, classes, name=place.name)


def _found(place: DatasetFolder, folders: tuple[str, ...]) -> Path:
    for name in folders:
        found = place.find(name)
        if found is not None and found.is_dir():
            return found
    tried = "\nor ".join(f"  {place.path / name}" for name in folders)
    msg = (
        f"datasets.load: {place.name!r} is not under {place.root}, and its publisher "
        f"offers no direct download. Unpack it into\n{tried}"
    )
    raise FileNotFoundError(msg)


def _from_list(path: Path, folder: Path, name: str) -> Listing:
    return [
        (
            str(_inside(path, folder, line.path)),
            name if line.label in {"", str(UNKNOWN)} else line.label,
        )
        for line in image_lists.read_lines(path)
    ]


def _inside(listed: Path, folder: Path, image: str) -> Path:
    """Return the image in the folder; lists begin their paths at different levels."""
    parts = Path(image).parts
    if ".." in parts or Path(image).is_absolute():
        msg = f"datasets: {listed} names {image!r}, a path out of its folder"
        raise ArtefactError(msg)
    for start in range(len(parts)):
        candidate = folder.joinpath(*parts[start:])
        if candidate.is_file():
            return candidate
    msg = f"datasets: {listed} names {image!r}, which is not in {folder}"
    raise FileNotFoundError(msg)


def imagenetv2(place: DatasetFolder) -> Dataset:
    """Read ImageNetV2 (matched frequency), with the classes of ImageNet.

    Its folders are numbered 0 to 999 in the order of the WordNet ids of ImageNet. These
    come from a file ``imagenet_wnids.txt`` with one id per line, or from the folders of
    ImageNet itself under the same root. Folders may also be named by WordNet id.
    """
    folder = _found(place, ("imagenetv2-matched-frequency-format-val", "val"))
    listing = list_folder(folder)
    if not all(name.isdigit() for _, name in listing):
        classes = class_folders(folder)
    else:
        classes = _wnids(place)
        too_high = {name for _, name in listing if int(name) >= len(classes)}
        if too_high:
            msg = (
                f"datasets: imagenetv2 must have folders below {len(classes)}, the "
                f"number of WordNet ids, got {min(too_high)}"
            )
            raise ArtefactError(msg)
        listing = [(path, classes[int(name)]) for path, name in listing]
    made = from_listings({"test": listing}, classes, name=place.name)
    return replace(made, label_set="imagenet")


def _wnids(place: DatasetFolder) -> list[str]:
    listed = place.find(_WNIDS)
    if listed is not None:
        return sorted(line.split()[0] for line in lines(listed))
    for part in ("val", "train"):
        folder = place.root / "imagenet" / part
        if folder.is_dir():
            return class_folders(folder)
    msg = (
        "datasets.load: the folders of 'imagenetv2' are numbers; their WordNet ids "
        f"must be in {place.path / _WNIDS}, one per line, or be the folders of "
        f"{place.root / 'imagenet' / 'val'}, got neither"
    )
    raise FileNotFoundError(msg)


def imagenet_21k_p(place: DatasetFolder) -> Dataset:
    """Read ImageNet-21K-P: folders per WordNet id; its validation images as test part.

    Easy and Hard of the Semantic Shift Benchmark are lists of its classes:
    ``protocols.published("imagenet-21k-p-winter21", "Hard").unknown``.
    """
    val = _found(place, ("imagenet21k_val", "val"))
    listings = {"test": list_folder(val)}
    train = val.with_name(val.name.replace("val", "train"))
    if train.is_dir():
        listings = {"train": list_folder(train)} | listings
    classes = sorted({name for listing in listings.values() for _, name in listing})
    return from_listings(listings, classes, name=place.name)
