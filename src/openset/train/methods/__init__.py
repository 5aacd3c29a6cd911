"""Training methods, by name; the files and what they hold.

=============  ==================================================================
softmax.py     softmax, ceplus, logitnorm
arpl.py        gcpl, rpl, arpl
arpl_cs.py     arpl_cs, with its generator and discriminator
openauc.py     openauc, acc_auc
torchosr.py    tsoftmax, noise, overlay
negatives.py   entropic, objectosphere, outlier_exposure, energy_bounded
proser.py      proser
mixing.py      how samples are mixed to pseudo-unknowns
base.py        `Method`, the base of all: loss, score, options
=============  ==================================================================
"""

# In the order of lists and messages, which is that of registration.
# isort: off
from openset.train.methods.base import REGISTRY, Method, Response, find, make, names
from openset.train.methods.softmax import CEPlus, LogitNorm, Softmax
from openset.train.methods.arpl import ARPL, GCPL, RPL
from openset.train.methods.arpl_cs import ARPLCS
from openset.train.methods.openauc import AccAUC, OpenAUC
from openset.train.methods.torchosr import (
    Noise,
    Overlay,
    ThresholdedSoftmax,
    published_threshold,
)
from openset.train.methods.negatives import (
    EnergyBounded,
    Entropic,
    Objectosphere,
    OutlierExposure,
    WithNegatives,
)
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
    "Response",
    "Softmax",
    "ThresholdedSoftmax",
    "WithNegatives",
    "find",
    "make",
    "names",
    "published_threshold",
]
