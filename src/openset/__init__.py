"""Open-set recognition: classifiers that also know when they do not know."""

from openset import datasets, detectors, metrics, protocols, stats
from openset._types import (
    UNKNOWN,
    ArtefactError,
    MissingExtraError,
    UndefinedMetricError,
)
from openset.metrics import evaluate
from openset.outputs import Outputs
from openset.protocols import openness
from openset.scores import Scores

__version__ = "0.1.0"

__all__ = [
    "UNKNOWN",
    "ArtefactError",
    "MissingExtraError",
    "Outputs",
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
]
