"""Outputs put together: several splits of one network, or several of its layers."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from openset import _check, _xp
from openset._types import Array
from openset.outputs.files import PER_SAMPLE

if TYPE_CHECKING:
    from openset.outputs.outputs import Outputs  # it imports us


def concatenated(parts: "Sequence[Outputs]") -> dict[str, Any]:
    """Return the fields of all parts together; raise if they do not agree."""
    caller = "Outputs.concat"
    columns = {
        name: _of_one_network(name, [getattr(part, name) for part in parts])
        for name in ("classes", "weight", "bias", "layers")
    }
    steps = sorted({part.input_step for part in parts})
    if len(steps) > 1:
        got = " and ".join(one or "none" for one in steps)
        _check.fail(caller, "parts", "of inputs perturbed by one step", got)
    if any(part.invalid == "keep" for part in parts):
        columns["invalid"] = "keep"
    for name in PER_SAMPLE:
        arrays = [getattr(part, name) for part in parts]
        missing = sum(array is None for array in arrays)
        if missing == len(arrays):
            continue
        if missing and name == "ids":  # not used in computations
            columns[name] = None
            continue
        if missing:
            rule, got = "given for all parts or for none", f"{missing} of {len(arrays)}"
            _check.fail(caller, name, rule, f"{got} without")
        widths = [one.shape[1] for one in arrays if one.ndim > 1]
        if len(set(widths)) > 1:
            got = ", ".join(map(str, widths))
            _check.fail(caller, name, "equally wide in all parts", got)
        places = sorted({_xp.describe(array) for array in arrays})
        if len(places) > 1:
            rule = "arrays of one library on one device"
            remedy = "Move them with to() or like()"
            _check.fail(caller, name, rule, " and ".join(places), remedy)
        if name in {"groups", "ids"}:
            columns[name] = _check.joined_names(arrays)
        else:
            columns[name] = _xp.array_namespace(*arrays).concat(arrays, axis=0)
    return columns


def _of_one_network(name: str, found: list[Any]) -> Any:
    """Return the value that all parts which have one share."""
    given = [one for one in found if one is not None and len(one)]
    for other in given[1:]:
        if not np.array_equal(_xp.to_numpy(given[0]), _xp.to_numpy(other)):
            got = f"different {name}"
            _check.fail("Outputs.concat", "parts", "of one network", got)
    return given[0] if given else found[0]


def side_by_side(parts: "Mapping[str, Outputs]") -> dict[str, Any]:
    """Return the fields of outputs with the features of all layers."""
    caller = "Outputs.of_layers"
    if not parts:
        _check.fail(caller, "parts", "outputs of one or several layers", "none")
    first = next(iter(parts.values()))
    for name, part in parts.items():
        if part.features is None:
            rule = "outputs with features"
            _check.fail(caller, f"layer {name!r}", rule, "none")
        for what in ("labels", "ids"):
            own, others = getattr(part, what), getattr(first, what)
            if own is None or others is None or np.array_equal(own, others):
                continue
            _check.fail(
                caller,
                f"layer {name!r}",
                "outputs of the same samples, in the same order",
                f"other {what} than in the first layer",
                "Extract all layers in one pass: extract.extract(..., layers=[...])",
            )
    _check.same_length(caller, {name: len(part) for name, part in parts.items()})
    arrays: dict[str, Array] = {name: part.features for name, part in parts.items()}
    keeps = any(part.invalid == "keep" for part in parts.values())
    same = ("logits", "labels", "groups", "ids", "classes", "input_step")
    return {name: getattr(first, name) for name in same} | {
        "features": _xp.array_namespace(*arrays.values()).concat(
            list(arrays.values()), axis=1
        ),
        "layers": [(name, array.shape[1]) for name, array in arrays.items()],
        "invalid": "keep" if keeps else "error",
    }
