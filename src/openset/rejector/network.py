"""What tells the network of the calibration from another one of the same width.

If the hidden units of a network are permuted, its logits and its accuracy stay the
same, and a detector of its features rejects every sample. So a rejector keeps a part of
the last layer, and the mean of each feature.
"""

import warnings
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from openset import _xp
from openset._types import UNKNOWN, Array, CalibrationWarning
from openset.outputs import Outputs

Marks: TypeAlias = Mapping[str, NDArray[Any]]

_CLASSES = 8  # rows of the last layer that are kept
_ROWS = 256  # samples looked at
_FEWEST_ROWS, _FEWEST_UNITS = 32, 16  # for the means of features
_ROUNDING = 0.05  # of the logits, in half precision or of weights in 8 bits
_OTHER = 0.2  # of the logits' spread: not the same last layer
# Correlation of mean features: of each class with all, and of another network.
_ALIKE, _UNLIKE = 0.6, 0.3


@np.errstate(all="ignore")  # of infinite or huge numbers
def marks_of(known: Outputs) -> dict[str, NDArray[Any]]:
    """Keep rows of the last layer, if it fits the logits, and mean features.

    The means are kept only if those of every class resemble them: else samples of some
    classes alone would look like another network.
    """
    found: dict[str, NDArray[Any]] = {}
    if known.features is None:
        return found
    sample = _sample(known)
    labels: Any = sample.labels
    features, logits = _numbers(sample.features), _numbers(sample.logits)
    if known.weight is not None and known.bias is not None and logits is not None:
        layer = {"weight": known.weight[:_CLASSES, ...], "bias": known.bias[:_CLASSES]}
        layer = {name: _numbers(one) for name, one in layer.items()}
        if _misfit(features, logits, layer) < _ROUNDING:
            found |= layer
    if len(features) >= _FEWEST_ROWS and features.shape[1] >= _FEWEST_UNITS:
        classes = np.unique(labels[labels != UNKNOWN])
        means = np.stack([features[labels == c].mean(axis=0) for c in classes])
        mean = means.mean(axis=0)
        if _correlations(means, mean).min() > _ALIKE:
            found["mean"] = mean
    return found


@np.errstate(all="ignore")
def warn_of_another(caller: str, outputs: Outputs, marks: Marks) -> None:
    """Warn if outputs are not of the network whose marks these are."""
    if outputs.features is None:
        return
    sample, why = _sample(outputs), ""
    features, logits = _numbers(sample.features), _numbers(sample.logits)
    if "weight" in marks and logits is not None:
        misfit = _misfit(features, logits, marks)
        if misfit > _OTHER:
            why = (
                "the last layer of that network gives other logits for their features, "
                f"by {misfit:.0%} of their spread"
            )
    elif "mean" in marks and len(features) >= _FEWEST_ROWS:
        mean = features.mean(axis=0)
        is_as_wide = mean.std() > marks["mean"].std() / 2  # no mere noise
        (correlation,) = _correlations(mean[None], marks["mean"])
        if correlation < _UNLIKE and is_as_wide:
            why = (
                "the means of their features are in no relation to those of the "
                f"calibration samples (correlation {correlation:.2f})"
            )
    if why:
        msg = (
            f"{caller}: outputs seem to be of another network than the rejector was "
            f"calibrated on: {why}. Decisions on them mean nothing: calibrate on "
            "outputs of this network"
        )
        warnings.warn(msg, CalibrationWarning, stacklevel=2)


def _sample(outputs: Outputs) -> Outputs:
    """Return evenly spaced samples: they are often sorted by class."""
    n = len(outputs)
    return outputs.take(np.unique(np.linspace(0, n - 1, min(n, _ROWS)).astype(int)))


def _numbers(array: Any) -> Any:
    return None if array is None else _xp.to_numpy(array).astype(np.float64)


def _misfit(features: Array, logits: Array, layer: Marks) -> float:
    """Return the distance of logits from those of a layer, as a share of their spread.

    Logits may be scaled by one number, and shifted by one for each sample.
    """
    bias = layer["bias"]
    pairs = logits[:, : len(bias)], features @ layer["weight"].T + bias
    given, found = (one - one.mean(axis=1, keepdims=True) for one in pairs)
    rows = np.isfinite(given).all(axis=1) & np.isfinite(found).all(axis=1)
    given, found = given[rows], found[rows]
    scale = max(float((given * found).sum() / (found**2).sum()), 0.0)
    share = np.linalg.norm(given - scale * found) / np.linalg.norm(given)
    return float(np.nan_to_num(share))  # without spread there is nothing to compare


def _correlations(rows: Array, mean: Array) -> NDArray[np.float64]:
    """Return the correlation of each row with these means; NaN is 0."""
    return np.nan_to_num(np.corrcoef(rows, mean)[-1, :-1])
