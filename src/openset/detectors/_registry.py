"""All detectors by name."""

from typing import Any

from openset import _check
from openset.detectors._base import Detector
from openset.detectors.combined import Combined
from openset.detectors.evm import EVM
from openset.detectors.msp import MSP
from openset.detectors.nno import NNO
from openset.detectors.openmax import OpenMax
from openset.detectors.osnn import OSNN
from openset.detectors.pisvm import PISVM
from openset.detectors.postmax import PostMax
from openset.detectors.wsvm import WSVM

REGISTRY: dict[str, type[Detector]] = {
    kind.name: kind
    for kind in (
        MSP,
        PostMax,
        OpenMax,
        EVM,
        OSNN,
        NNO,
        WSVM,
        PISVM,
        Combined,
    )
}


def names() -> list[str]:
    """Return the names of all detectors."""
    return list(REGISTRY)


def make(name: str, **params: Any) -> Detector:
    """Build a detector from its name, e.g. ``make("nnguide", k=5)``."""
    _check.one_of("detectors.make", "name", name, names())
    return REGISTRY[name](**params)
