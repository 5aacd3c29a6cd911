"""Thresholds: where to cut a knownness, chosen on calibration data, with their birth.

A sample is accepted iff ``known >= threshold``. Every function takes calibration
scores, never the test's, and returns a `Threshold`.
"""

from openset.thresholds._fingerprint import Fingerprint
from openset.thresholds._osa import osa
from openset.thresholds._rates import at_fpr, at_tpr
from openset.thresholds._threshold import Count, Rate, Span, Threshold

__all__ = [
    "Count",
    "Fingerprint",
    "Rate",
    "Span",
    "Threshold",
    "at_fpr",
    "at_tpr",
    "osa",
]
