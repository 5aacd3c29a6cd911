"""Checks for detectors of your own.

In a test of your package::

    from openset.testing import check_detector

    def test_margin():
        check_detector(Margin)
"""

from openset.testing.detector import check_detector as check_detector
from openset.testing.example import example_outputs as example_outputs
from openset.testing.example import in_library as in_library
