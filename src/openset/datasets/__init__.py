"""Data sets by name or from your own files, cut into parts by protocols."""

from openset.datasets import image_lists, lazy_inputs
from openset.datasets._apply_protocol import cut, folds
from openset.datasets._arrays import from_arrays
from openset.datasets._dataset import Dataset
from openset.datasets._dataset_folder import default_root
from openset.datasets._negatives import with_negatives
from openset.datasets._registry import (
    available,
    describe,
    info,
    is_name,
    load,
    names,
    register,
    resized,
)
from openset.datasets._samples import Cut, Samples

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
