"""The images of the PostMax paper, by part, as far as they are on this machine."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from openset import datasets
from openset.datasets import Dataset
from openset.protocols import published
from openset.protocols.sampling import Stream, take_share

# As the paper calls them, and as `openset datasets` does.
_UNKNOWNS: Mapping[str, str] = {
    "iNaturalist": "inaturalist",
    "NINCO": "ninco",
    "OpenImage-O": "openimage-o",
    "Places": "places-mos",
    "SUN": "sun-mos",
    "Textures": "dtd",
}
_SHARE = 0.2  # of 21K-P Hard: surrogate unknowns


def imagenet_parts(
    root: str | Path | None = None, *, rng: int = 0
) -> dict[str, Dataset]:
    """Return the images of every part of the PostMax paper, named as its outputs are.

    * train, test: ILSVRC2012 train and val; validation: ImageNetV2;
    * surrogate: a fifth of the images of each class of ImageNet-21K-P Hard (Winter
      2021: 980 classes, 9.8 thousand images);
    * unknown: Easy and Hard, and those of iNaturalist, NINCO, OpenImage-O, Places, SUN
      and Textures that are under `root`.

    Run a network over each part and save its outputs under that name, with
    ``network.json``: then ``openset reproduce postmax-table1 --outputs`` reads them.

    Parameters
    ----------
    root
        Folder of the data sets, as in :func:`openset.datasets.load`.
    rng
        Seed of the draw of surrogate images.

    References
    ----------
    PostMax paper (ECCV 2024), section 4.1. It does not say how the 20 % of Hard were
    drawn; a fifth of each class gives its 9.8 thousand images.
    """
    known = datasets.load("imagenet", root)
    large = datasets.load("imagenet-21k-p", root).part("test")
    parts = {
        "train": known.part("train"),
        "validation": datasets.load("imagenetv2", root).part("test"),
        "test": known.part("test"),
    }
    for level in ("Hard", "Easy"):
        wanted = published("imagenet-21k-p-winter21", level).unknown
        mine = _of_classes(large, set(map(str, wanted)))
        if level == "Hard":
            stream = Stream("imagenet_parts", rng)
            few = take_share(mine.labels, _SHARE, stream)
            parts["surrogate/21K-P Hard"] = mine.take(few)
        parts[f"unknown/21K-P {level}"] = mine
    here = set(datasets.available(root))
    for title, name in _UNKNOWNS.items():
        if name in here:
            found = datasets.load(name, root)
            parts[f"unknown/{title}"] = found.take(np.arange(len(found)))
    return parts


def _of_classes(dataset: Dataset, names: set[str]) -> Dataset:
    is_in = np.array([name in names for name in dataset.classes])
    return dataset.take(is_in[dataset.labels])
