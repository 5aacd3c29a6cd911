"""What a detector needs of outputs: which arrays, and how wide they are."""

import warnings
from collections.abc import Iterable

import numpy as np

from openset import _xp
from openset.outputs import Outputs, leading_rows

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

    Only classes are compared, and most of them must differ: some networks scale their
    logits, or round them. Arrays of NumPy only: a fit on a GPU should not wait for it.
    """
    if not _xp.is_numpy_array(outputs.features):
        return
    features, logits = leading_rows(outputs.features), leading_rows(outputs.logits)
    if features is None or logits is None:
        return
    computed = features @ np.asarray(outputs.weight).T + np.asarray(outputs.bias)
    is_same = computed.argmax(axis=1) == logits.argmax(axis=1)
    if is_same.mean() < 0.5:
        msg = (
            f"{caller}.fit: features, weight and bias do not fit the logits: for "
            f"{is_same.size - is_same.sum()} of the first {is_same.size} samples, "
            "features @ weight.T + bias has another largest class. Give the inputs of "
            "the last linear layer as features, and its own weight and bias"
        )
        warnings.warn(msg, stacklevel=4)
