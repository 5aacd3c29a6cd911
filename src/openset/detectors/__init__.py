"""Post-hoc detectors: a trained network's outputs to one knownness per sample."""

from openset.detectors._base import Batch, Detector, Fitted, score_all
from openset.detectors._registry import REGISTRY, make, names
from openset.detectors.msp import MSP

__all__ = [
    "MSP",
    "REGISTRY",
    "Batch",
    "Detector",
    "Fitted",
    "make",
    "names",
    "score_all",
]
