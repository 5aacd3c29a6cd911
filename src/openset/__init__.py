"""Open-set recognition: classifiers that also know when they do not know."""

from openset import datasets, detectors, metrics, protocols, stats, thresholds
from openset._types import (
    UNKNOWN,
    ArtefactError,
    MissingExtraError,
    UndefinedMetricError,
)
from openset._version import __version__
from openset.metrics import evaluate
from openset.outputs import Outputs
from openset.protocols import openness
from openset.rejector import Rejector
from openset.scores import Scores

__all__ = [
    "UNKNOWN",
    "ArtefactError",
    "MissingExtraError",
    "Outputs",
    "Rejector",
    "Scores",
    "UndefinedMetricError",
    "__version__",
    "datasets",
    "detectors",
    "evaluate",
    "metrics",
    "openness",
    "protocols",
    "stats",
    "thresholds",
]
