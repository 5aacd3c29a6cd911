"""Protocols: which classes are known and which are unknown, drawn once and saved."""

from openset.protocols import classes, sampling
from openset.protocols._class_draws import default, holdout, operational, outlier
from openset.protocols._draws import Draws, load
from openset.protocols._grid import grid, leave_classes_out
from openset.protocols._openness import openness, pairs
from openset.protocols._protocol import Protocol
from openset.protocols._published import (
    candidates,
    names,
    published,
    similar,
    splits,
)

__all__ = [
    "Draws",
    "Protocol",
    "candidates",
    "classes",
    "default",
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
    "sampling",
    "similar",
    "splits",
]
