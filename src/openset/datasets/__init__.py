"""Data sets: one door for all of them, and the knife that protocols wield."""

from openset.datasets._arrays import from_arrays, from_npz
from openset.datasets._cut import Cut, Samples, cut, folds
from openset.datasets._dataset import Dataset
from openset.datasets._folders import image_folder
from openset.datasets._hub import from_hub
from openset.datasets._inputs import ImageFiles
from openset.datasets._registry import REGISTRY, available, load, names, resized

__all__ = [
    "REGISTRY",
    "Cut",
    "Dataset",
    "ImageFiles",
    "Samples",
    "available",
    "cut",
    "folds",
    "from_arrays",
    "from_hub",
    "from_npz",
    "image_folder",
    "load",
    "names",
    "resized",
]
