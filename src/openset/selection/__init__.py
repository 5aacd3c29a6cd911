"""Choosing a detector and an objective, and synthetic unknowns to do it with.

:func:`choose` compares fitted detectors on kinds of unknowns that were left out of the
calibration; :func:`suitable` lists detectors to compare. :func:`synthetic` and
:func:`leave_classes_out` make surrogate unknowns from known samples.
"""

from openset.selection._choose import Choice, choose
from openset.selection._suitable import Suitable, suitable
from openset.selection._surrogate import (
    SYNTHETIC_KINDS,
    leave_classes_out,
    need_use_of_logits,
    synthetic,
)

__all__ = [
    "SYNTHETIC_KINDS",
    "Choice",
    "Suitable",
    "choose",
    "leave_classes_out",
    "need_use_of_logits",
    "suitable",
    "synthetic",
]
