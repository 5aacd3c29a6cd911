"""What a detector needs of outputs: which arrays, and how wide they are."""

import warnings
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from openset import _xp
from openset.outputs import Outputs, leading_rows

# Of half precision, or of weights in 8 bits; another layer differs by far more.
_ROUNDING = 0.05
_TINY = 1e-300  # all logits of a sample may be equal
_REMEDY = {
    "logits": "Give Outputs(logits=...)",
    "features": "Give Outputs(features=...), the input of the last linear layer",
    "labels": "Give Outputs(labels=...)",
    "head": "Give Outputs(weight=..., bias=...), the last linear layer with a bias "
    "of zeros if it has none",
}


def need_inputs(caller: str, verb: str, needs: Iterable[str], outputs: Outputs) -> None:
    """Raise if the outputs lack one of these, and say how to give it."""
    for one in absent(needs, outputs):
        msg = f"{caller}.{verb}: outputs must have {one}, got none. {_REMEDY[one]}"
        raise ValueError(msg)


def absent(needs: Iterable[str], outputs: Outputs) -> list[str]:
    """Return which of these the outputs do not have."""
    has_head = outputs.weight is not None and outputs.bias is not None
    return [
        need
        for need in needs
        if not (has_head if need == "head" else getattr(outputs, need) is not None)
    ]


def widths_of(outputs: Outputs) -> dict[str, int | None]:
    """Return the numbers of classes and of features; None for what is not there."""
    features = outputs.features
    return {
        "n_classes": outputs.n_classes,
        "n_features": None if features is None else int(features.shape[1]),
    }


def warn_of_another_head(caller: str, outputs: Outputs) -> None:
    """Warn if weight and bias are not of the layer between features and logits.

    Logits may be scaled by one number, shifted by one for each sample (as logarithms of
    probabilities are), and rounded. NumPy only: a fit on a GPU should not wait.
    """
    if not _xp.is_numpy_array(outputs.features):
        return
    features, logits = (
        leading_rows(array, mapped=True) for array in (outputs.features, outputs.logits)
    )
    if features is None or logits is None:
        return
    # Converted first: NumPy multiplies matrices of two dtypes more slowly.
    weight = np.asarray(outputs.weight, dtype=np.float64)
    computed = features @ weight.T + np.asarray(outputs.bias)
    rows = np.isfinite(computed).all(axis=1) & np.isfinite(logits).all(axis=1)
    if not rows.any():
        return
    given, found = _spread(logits[rows]), _spread(computed[rows])
    scale = max(float((given * found).sum()), 0) / max(float((found**2).sum()), _TINY)
    error = float(np.linalg.norm(given - scale * found))
    share = error / max(float(np.linalg.norm(given)), _TINY)
    if share > _ROUNDING:
        differing = int((computed.argmax(axis=1) != logits.argmax(axis=1)).sum())
        msg = (
            f"{caller}.fit: features, weight and bias do not fit the logits: "
            f"features @ weight.T + bias differs from them by {share:.0%} of their "
            f"spread, and for {differing} of the first {len(logits)} samples it has "
            "another largest class. Give the inputs of the last linear layer as "
            "features, and its own weight and bias; for a cosine classifier, features "
            "and weights of length 1"
        )
        warnings.warn(msg, stacklevel=4)


def _spread(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the differences from each sample's mean, the largest of them 1."""
    centred: NDArray[np.float64] = logits - logits.mean(axis=1, keepdims=True)
    return centred / max(float(np.abs(centred).max()), _TINY)
