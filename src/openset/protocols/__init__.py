"""Protocols: which classes are known and which are unknown, drawn once and saved."""

from openset.protocols import classes, sampling
from openset.protocols.drawing import default, holdout, operational, outlier
from openset.protocols.draws import Draws, load
from openset.protocols.grids import grid, leave_classes_out, openness, pairs
from openset.protocols.protocol import Protocol
from openset.protocols.published_splits import names, published, splits

__all__ = [
    "Draws",
    "Protocol",
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
    "splits",
]
