"""What is known about detectors before any data are seen: results on other networks.

Made by ``benchmarks/missing_kinds.py --priors`` from the 43 networks of half A (nine
families: images, text and tables; small networks and an ImageNet one are not equally
represented, so read it as a hint). It decides nothing by itself: with every kind of
unknowns that is given, it counts for less.
"""

from typing import NamedTuple

MEMBERS = ("msp", "rmds", "vim", "osnn")
"""Detectors of the consensus: they look at different things, and none is weak."""


class Prior(NamedTuple):
    """Gain of a detector over the consensus, in open-set accuracy on a missing kind."""

    mean: float
    within: float
    """Variance between kinds of one network."""
    between: float
    """Variance between networks."""


_PRIOR = {
    "msp": Prior(-0.0810, 0.00415, 0.00529),
    "maxlogit": Prior(-0.0929, 0.00847, 0.00895),
    "energy": Prior(-0.0954, 0.00875, 0.00917),
    "gen": Prior(-0.0852, 0.00976, 0.00798),
    "postmax": Prior(-0.0763, 0.00511, 0.00642),
    "openmax": Prior(-0.1347, 0.00682, 0.00844),
    "nnguide": Prior(-0.0985, 0.00792, 0.00986),
    "scale": Prior(-0.1037, 0.00742, 0.00916),
    "ash": Prior(-0.1872, 0.00900, 0.00952),
    "react": Prior(-0.0835, 0.00516, 0.00635),
    "vim": Prior(-0.0346, 0.00134, 0.00189),
    "knn": Prior(-0.0965, 0.00490, 0.00885),
    "mahalanobis": Prior(-0.0500, 0.00337, 0.00231),
    "rmds": Prior(-0.0156, 0.00217, 0.00072),
    "fdbd": Prior(-0.0628, 0.00430, 0.00570),
    "nci": Prior(-0.0828, 0.00476, 0.00628),
    "osnn": Prior(-0.0157, 0.00126, 0.00387),
    "nno": Prior(-0.0870, 0.00388, 0.00488),
}


def prior_of(name: str) -> Prior:
    """Return what is known about a detector; of one from outside, the average."""
    if name in _PRIOR:
        return _PRIOR[name]
    return Prior(
        *(sum(column) / len(_PRIOR) for column in zip(*_PRIOR.values(), strict=True))
    )
