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

# Each file registers its methods: in the order of lists and messages.
# isort: off
from openset.train.methods.base import REGISTRY, Method, Response, find, make, names
from openset.train.methods import softmax, arpl, arpl_cs, openauc, torchosr, negatives
from openset.train.methods import proser, mixing

# isort: on
from openset.train.methods.negatives import WithNegatives
from openset.train.methods.torchosr import published_threshold

__all__ = ["REGISTRY", "Method", "Response", "WithNegatives", "arpl", "arpl_cs", "find"]
__all__ += ["make", "mixing", "names", "negatives", "openauc", "proser", "softmax"]
__all__ += ["published_threshold", "torchosr"]
