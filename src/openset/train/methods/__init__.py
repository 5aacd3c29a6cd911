"""Training methods: one file each, by name in the registry."""

from openset.train.methods._base import Method, Phase, Response
from openset.train.methods._registry import REGISTRY, find, names
from openset.train.methods.openauc import AccAUC, OpenAUC
from openset.train.methods.softmax import CEPlus, Softmax

__all__ = [
    "REGISTRY",
    "AccAUC",
    "CEPlus",
    "Method",
    "OpenAUC",
    "Phase",
    "Response",
    "Softmax",
    "find",
    "names",
]
