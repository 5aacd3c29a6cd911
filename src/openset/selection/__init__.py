"""Choosing a detector, and synthetic unknowns to do it with.

:func:`choose` compares fitted detectors on kinds of unknowns that were left out of the
calibration; :func:`suitable` lists detectors to compare. :func:`synthetic` and
:func:`leave_classes_out` make surrogate unknowns from known samples.
"""

from openset.selection.choose import Choice as Choice
from openset.selection.choose import Suitable as Suitable
from openset.selection.choose import choose as choose
from openset.selection.choose import suitable as suitable
from openset.selection.synthetic import SYNTHETIC_KINDS as SYNTHETIC_KINDS
from openset.selection.synthetic import leave_classes_out as leave_classes_out
from openset.selection.synthetic import need_use_of_logits as need_use_of_logits
from openset.selection.synthetic import synthetic as synthetic
