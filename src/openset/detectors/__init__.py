"""Post-hoc detectors: a trained network's outputs to one knownness per sample."""

from openset.detectors import evt
from openset.detectors._base import Batch, Detector, Fitted, score_all
from openset.detectors._registry import REGISTRY, make, names
from openset.detectors.combined import Combined, combine
from openset.detectors.evm import EVM
from openset.detectors.msp import MSP
from openset.detectors.nno import NNO
from openset.detectors.openmax import OpenMax
from openset.detectors.osnn import OSNN
from openset.detectors.pisvm import PISVM
from openset.detectors.postmax import PostMax
from openset.detectors.wsvm import WSVM

__all__ = [
    "EVM",
    "MSP",
    "NNO",
    "OSNN",
    "PISVM",
    "REGISTRY",
    "WSVM",
    "Batch",
    "Combined",
    "Detector",
    "Fitted",
    "OpenMax",
    "PostMax",
    "combine",
    "evt",
    "make",
    "names",
    "score_all",
]
