"""What a detector needs of outputs: which arrays, and how wide they are."""

from collections.abc import Iterable

from openset.outputs import Outputs

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
