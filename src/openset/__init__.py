"""Open-set recognition: classifiers that reject samples of unknown classes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from openset._types import (
    UNKNOWN,
    ArtefactError,
    CalibrationError,
    CalibrationWarning,
    InvalidSamplesError,
    MissingExtraError,
    PairingWarning,
    TrainingWarning,
    UndefinedMetricError,
)
from openset._version import __version__

if TYPE_CHECKING:
    from openset import (
        bench,
        checks,
        datasets,
        detectors,
        extract,
        integrations,
        metrics,
        protocols,
        report,
        reproduce,
        results,
        runs,
        selection,
        serve,
        shards,
        stats,
        testing,
        thresholds,
        train,
        watch,
    )
    from openset.digits import demo
    from openset.metrics import evaluate
    from openset.outputs import Outputs
    from openset.protocols import openness
    from openset.rejector import Rejector
    from openset.scores import Scores

__all__ = [
    "UNKNOWN", "ArtefactError", "CalibrationError", "CalibrationWarning",
    "InvalidSamplesError", "MissingExtraError", "Outputs", "PairingWarning",
    "Rejector", "Scores", "TrainingWarning", "UndefinedMetricError", "__version__",
    "bench", "checks", "datasets", "demo", "detectors", "evaluate", "extract",
    "integrations", "metrics", "openness", "protocols", "report", "reproduce",
    "results", "runs", "selection", "serve", "shards", "stats", "testing",
    "thresholds", "train", "watch",
]  # fmt: skip

# Imported on first use: SciPy and scikit-learn take a second to import, which is too
# long for a program that only loads scores or prints --help.
_HOMES = {
    "Outputs": "openset.outputs",
    "Scores": "openset.scores",
    "evaluate": "openset.metrics",
    "demo": "openset.digits",
    "openness": "openset.protocols",
    "Rejector": "openset.rejector",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in __all__:
        value = import_module(f"openset.{name}")
    else:
        msg = f"module 'openset' has no attribute {name!r}"
        raise AttributeError(msg)
    globals()[name] = value  # stored, so that the next access is direct
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
