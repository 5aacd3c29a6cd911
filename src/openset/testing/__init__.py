"""Checks that a detector of your own keeps to what every detector promises.

In a test of your package::

    from openset.testing import check_detector

    def test_margin():
        check_detector(Margin)
"""

from openset.testing._detectors import check_detector, detector_checks
from openset.testing._example import example_outputs, in_library

__all__ = ["check_detector", "detector_checks", "example_outputs", "in_library"]
