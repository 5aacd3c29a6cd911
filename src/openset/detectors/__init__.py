"""Post-hoc detectors: a trained network's outputs to one knownness per sample."""

from openset.detectors._base import Batch, Detector, Fitted, score_all
from openset.detectors._registry import REGISTRY, make, names
from openset.detectors.ash import ASH
from openset.detectors.energy import Energy
from openset.detectors.fdbd import FDBD
from openset.detectors.gen import GEN
from openset.detectors.knn import KNN
from openset.detectors.mahalanobis import Mahalanobis
from openset.detectors.maxlogit import MaxLogit
from openset.detectors.msp import MSP
from openset.detectors.nci import NCI
from openset.detectors.nnguide import NNGuide
from openset.detectors.react import ReAct
from openset.detectors.rmds import RMDS
from openset.detectors.scale import SCALE
from openset.detectors.vim import ViM

__all__ = [
    "ASH",
    "FDBD",
    "GEN",
    "KNN",
    "MSP",
    "NCI",
    "REGISTRY",
    "RMDS",
    "SCALE",
    "Batch",
    "Detector",
    "Energy",
    "Fitted",
    "Mahalanobis",
    "MaxLogit",
    "NNGuide",
    "ReAct",
    "ViM",
    "make",
    "names",
    "score_all",
]
