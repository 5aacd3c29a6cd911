"""Checks for detectors and training methods of your own.

In a test of your package::

    from openset.testing import check_detector

    def test_margin():
        check_detector(Margin)

The same for a training method: :func:`check_method`.
"""

from openset.testing._detectors import check_detector, detector_checks
from openset.testing._example import example_outputs, in_library
from openset.testing._methods import check_method, method_checks

__all__ = [
    "check_detector",
    "check_method",
    "detector_checks",
    "example_outputs",
    "in_library",
    "method_checks",
]
