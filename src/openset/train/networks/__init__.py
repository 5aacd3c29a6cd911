"""Networks: a backbone and one last linear layer, by name or your own."""

from openset.train.networks.classifier32 import Classifier32, TwoNorms
from openset.train.networks.make import TIMM, make, names, normalisation
from openset.train.networks.mlp import MLP
from openset.train.networks.network import Network
from openset.train.networks.osrci import OSRCI

__all__ = ["MLP", "OSRCI", "TIMM", "Classifier32", "Network", "TwoNorms", "make"]
__all__ += ["names", "normalisation"]
