"""Data sets: one door for all of them, and the knife that protocols wield."""

from openset.datasets._arrays import from_arrays, from_npz
from openset.datasets._cut import cut, folds
from openset.datasets._dataset import Dataset
from openset.datasets._folders import image_folder
from openset.datasets._hub import from_hub
from openset.datasets._inputs import ImageFiles
from openset.datasets._registry import available, describe, load, names, resized
from openset.datasets._samples import Cut, Samples
from openset.datasets._sources import REGISTRY

__all__ = [
    "REGISTRY",
    "Cut",
    "Dataset",
    "ImageFiles",
    "Samples",
    "available",
    "cut",
    "describe",
    "folds",
    "from_arrays",
    "from_hub",
    "from_npz",
    "image_folder",
    "load",
    "names",
    "resized",
]
