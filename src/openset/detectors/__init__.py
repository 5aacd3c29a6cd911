"""Post-hoc detectors: compute one knownness per sample from a network's outputs."""

from openset.detectors import constraints, evt
from openset.detectors._batch import Batch, State
from openset.detectors._detector import Detector
from openset.detectors._fitted import Fitted
from openset.detectors._registry import find, make, names, options, remade
from openset.detectors._score_all import score_all
from openset.detectors.ash import ASH
from openset.detectors.combined import Combined, combine
from openset.detectors.core import CORE
from openset.detectors.dice import DICE
from openset.detectors.energy import Energy
from openset.detectors.entropy import Entropy
from openset.detectors.evm import EVM
from openset.detectors.fdbd import FDBD
from openset.detectors.gen import GEN
from openset.detectors.gmm import GMM
from openset.detectors.gradnorm import GradNorm
from openset.detectors.klm import KLM
from openset.detectors.knn import KNN
from openset.detectors.lts import LTS
from openset.detectors.mahalanobis import Mahalanobis
from openset.detectors.maxlogit import MaxLogit
from openset.detectors.mcm import MCM
from openset.detectors.msp import MSP
from openset.detectors.nci import NCI
from openset.detectors.nnguide import NNGuide
from openset.detectors.nno import NNO
from openset.detectors.openmax import OpenMax
from openset.detectors.osnn import OSNN
from openset.detectors.pisvm import PISVM
from openset.detectors.pnml import PNML
from openset.detectors.postmax import PostMax
from openset.detectors.react import ReAct
from openset.detectors.relation import Relation
from openset.detectors.residual import Residual
from openset.detectors.rmds import RMDS
from openset.detectors.scale import SCALE
from openset.detectors.she import SHE
from openset.detectors.temperature import Temperature
from openset.detectors.vim import ViM
from openset.detectors.vra import VRA
from openset.detectors.weiper import WeiPer
from openset.detectors.wsvm import WSVM

__all__ = [
    "ASH",
    "CORE",
    "DICE",
    "EVM",
    "FDBD",
    "GEN",
    "GMM",
    "KLM",
    "KNN",
    "LTS",
    "MCM",
    "MSP",
    "NCI",
    "NNO",
    "OSNN",
    "PISVM",
    "PNML",
    "RMDS",
    "SCALE",
    "SHE",
    "VRA",
    "WSVM",
    "Batch",
    "Combined",
    "Detector",
    "Energy",
    "Entropy",
    "Fitted",
    "GradNorm",
    "Mahalanobis",
    "MaxLogit",
    "NNGuide",
    "OpenMax",
    "PostMax",
    "ReAct",
    "Relation",
    "Residual",
    "State",
    "Temperature",
    "ViM",
    "WeiPer",
    "combine",
    "constraints",
    "evt",
    "find",
    "make",
    "names",
    "options",
    "remade",
    "score_all",
]
