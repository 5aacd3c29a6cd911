"""Training methods: one file each, by name in the registry."""

from openset.train.methods._base import (
    REGISTRY,
    Method,
    Phase,
    Response,
    find,
    make,
    names,
)

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
from openset.train.methods.objectosphere import Objectosphere
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
    "Method",
    "Noise",
    "Objectosphere",
    "OpenAUC",
    "Overlay",
    "Phase",
    "Response",
    "Softmax",
    "ThresholdedSoftmax",
    "find",
    "make",
    "names",
    "published_threshold",
]
