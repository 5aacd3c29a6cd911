"""Protocols: who is known, who is unknown, drawn once and written down."""

from openset.protocols._drawing import holdout, operational, outlier
from openset.protocols._draws import Draws, duplicates, load
from openset.protocols._openness import openness, pairs
from openset.protocols._protocol import Class, Protocol
from openset.protocols._published import (
    candidates,
    names,
    published,
    similar,
    splits,
)
from openset.protocols._samples import Fold, folds
from openset.protocols._series import grid, leave_classes_out

__all__ = [
    "Class",
    "Draws",
    "Fold",
    "Protocol",
    "candidates",
    "duplicates",
    "folds",
    "grid",
    "holdout",
    "leave_classes_out",
    "load",
    "names",
    "openness",
    "operational",
    "outlier",
    "pairs",
    "published",
    "similar",
    "splits",
]
