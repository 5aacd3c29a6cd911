"""Choosing a detector and an objective, and making unknowns where there are none.

:func:`choose` compares fitted detectors on kinds of unknowns that were left out of the
calibration. :func:`synthetic` and :func:`leave_classes_out` make unknowns from known
samples.
"""

from openset.selection._choose import Choice, choose
from openset.selection._surrogate import (
    KINDS,
    leave_classes_out,
    synthetic,
    synthetic_like,
)

__all__ = [
    "KINDS",
    "Choice",
    "choose",
    "leave_classes_out",
    "synthetic",
    "synthetic_like",
]
