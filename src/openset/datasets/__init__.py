"""Data sets by name or from your own files, cut into parts by protocols."""

from openset.datasets import image_lists, lazy_inputs
from openset.datasets.cuts import Cut, Samples, cut, folds
from openset.datasets.dataset import Dataset
from openset.datasets.loading import (
    available,
    describe,
    info,
    is_name,
    load,
    names,
    register,
    resized,
)
from openset.datasets.negatives import with_negatives
from openset.datasets.own import from_arrays
from openset.datasets.places import default_root

__all__ = [
    "Cut",
    "Dataset",
    "Samples",
    "available",
    "cut",
    "default_root",
    "describe",
    "folds",
    "from_arrays",
    "image_lists",
    "info",
    "is_name",
    "lazy_inputs",
    "load",
    "names",
    "register",
    "resized",
    "with_negatives",
]
