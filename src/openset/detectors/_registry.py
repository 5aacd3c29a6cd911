"""All detectors by name."""

import inspect
from typing import Any

from openset import _check
from openset.detectors._base import Detector
from openset.detectors.ash import ASH
from openset.detectors.combined import Combined
from openset.detectors.energy import Energy
from openset.detectors.evm import EVM
from openset.detectors.fdbd import FDBD
from openset.detectors.gen import GEN
from openset.detectors.knn import KNN
from openset.detectors.mahalanobis import Mahalanobis
from openset.detectors.maxlogit import MaxLogit
from openset.detectors.msp import MSP
from openset.detectors.nci import NCI
from openset.detectors.nnguide import NNGuide
from openset.detectors.nno import NNO
from openset.detectors.openmax import OpenMax
from openset.detectors.osnn import OSNN
from openset.detectors.pisvm import PISVM
from openset.detectors.postmax import PostMax
from openset.detectors.react import ReAct
from openset.detectors.rmds import RMDS
from openset.detectors.scale import SCALE
from openset.detectors.vim import ViM
from openset.detectors.wsvm import WSVM

REGISTRY: dict[str, type[Detector]] = {
    kind.name: kind
    for kind in (
        MSP,
        MaxLogit,
        Energy,
        GEN,
        PostMax,
        OpenMax,
        NNGuide,
        SCALE,
        ASH,
        ReAct,
        ViM,
        KNN,
        Mahalanobis,
        RMDS,
        FDBD,
        NCI,
        EVM,
        OSNN,
        NNO,
        WSVM,
        PISVM,
    )
}

# Made from fitted detectors, never from a name and training data; only files name it.
_MADE_OF_OTHERS: dict[str, type[Detector]] = {Combined.name: Combined}


def names() -> list[str]:
    """Return the names of all detectors."""
    return list(REGISTRY)


def options(name: str) -> list[str]:
    """Return the names of what a detector can be told.

    Examples
    --------
    >>> options("postmax")
    ['norm', 'fit', 'only_correct']
    """
    _check.one_of("detectors.options", "name", name, names())
    return list(inspect.signature(REGISTRY[name]).parameters)


def make(name: str, **params: Any) -> Detector:
    """Build a detector from its name, e.g. ``make("nnguide", k=5)``."""
    kinds = REGISTRY | _MADE_OF_OTHERS
    if name not in kinds:
        _check.one_of("detectors.make", "name", name, names())
    return kinds[name](**params)
