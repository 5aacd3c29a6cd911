"""Alarms when new samples differ from those a threshold was calibrated on."""

from openset.watch.features import MMD, mmd
from openset.watch.traffic import compare, read
from openset.watch.verdict import Part, Verdict, WindowTest
from openset.watch.windows import Watch

__all__ = ["MMD", "Part", "Verdict", "Watch", "WindowTest", "compare", "mmd", "read"]
