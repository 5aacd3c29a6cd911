"""All detectors by name."""

from typing import Any

from openset import _check
from openset.detectors._base import Detector
from openset.detectors.msp import MSP

REGISTRY: dict[str, type[Detector]] = {kind.name: kind for kind in (MSP,)}


def names() -> list[str]:
    """Return the names of all detectors."""
    return list(REGISTRY)


def make(name: str, **params: Any) -> Detector:
    """Build a detector from its name, e.g. ``make("nnguide", k=5)``."""
    _check.one_of("detectors.make", "name", name, names())
    return REGISTRY[name](**params)
