"""Training methods, by name."""

from openset.train.methods._base import (
    REGISTRY,
    Method,
    Phase,
    Response,
    find,
    make,
    names,
)
from openset.train.methods._negatives import WithNegatives

# In the order of lists and messages, which is that of registration.
# isort: off
from openset.train.methods.softmax import CEPlus, Softmax
from openset.train.methods.gcpl import GCPL
from openset.train.methods.rpl import RPL
from openset.train.methods.arpl import ARPL
from openset.train.methods.arpl_cs import ARPLCS
from openset.train.methods.openauc import AccAUC, OpenAUC
from openset.train.methods.tsoftmax import ThresholdedSoftmax, published_threshold
from openset.train.methods.noise import Noise
from openset.train.methods.overlay import Overlay
from openset.train.methods.entropic import Entropic
from openset.train.methods.objectosphere import Objectosphere
from openset.train.methods.outlier_exposure import OutlierExposure
from openset.train.methods.energy_bounded import EnergyBounded
from openset.train.methods.logitnorm import LogitNorm
from openset.train.methods.proser import PROSER
# isort: on

__all__ = [
    "ARPL",
    "ARPLCS",
    "GCPL",
    "PROSER",
    "REGISTRY",
    "RPL",
    "AccAUC",
    "CEPlus",
    "EnergyBounded",
    "Entropic",
    "LogitNorm",
    "Method",
    "Noise",
    "Objectosphere",
    "OpenAUC",
    "OutlierExposure",
    "Overlay",
    "Phase",
    "Response",
    "Softmax",
    "ThresholdedSoftmax",
    "WithNegatives",
    "find",
    "make",
    "names",
    "published_threshold",
]
