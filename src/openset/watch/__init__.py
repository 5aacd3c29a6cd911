"""Alarms when new samples differ from those a threshold was calibrated on."""

from openset.watch._mmd import MMD, mmd
from openset.watch._watch import Against, Part, Verdict, Watch, WindowTest

__all__ = ["MMD", "Against", "Part", "Verdict", "Watch", "WindowTest", "mmd"]
