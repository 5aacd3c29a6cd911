"""Concatenate the outputs of one network on several splits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from openset import _check, _xp
from openset.outputs._fields import PER_SAMPLE

if TYPE_CHECKING:
    from openset.outputs._outputs import Outputs  # it imports us


def concatenated(parts: "Sequence[Outputs]") -> dict[str, Any]:
    """Return the fields of all parts together; raise if they do not agree."""
    columns: dict[str, Any] = {
        name: _of_one_network(name, [getattr(part, name) for part in parts])
        for name in ("classes", "weight", "bias", "layers")
    }
    steps = sorted({part.input_step for part in parts})
    if len(steps) > 1:
        got = " and ".join(one or "none" for one in steps)
        rule = "of inputs perturbed by one step"
        _check.fail("Outputs.concat", "parts", rule, got)
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
            msg = (
                f"Outputs.concat: {name} must be given for all parts or for none, "
                f"got {missing} of {len(arrays)} without"
            )
            raise ValueError(msg)
        _check_alike(name, arrays)
        if name in {"groups", "ids"}:
            columns[name] = _check.joined_names(arrays)
        elif isinstance(arrays[0], np.ndarray):
            columns[name] = np.concatenate(arrays)
        else:
            columns[name] = _xp.array_namespace(*arrays).concat(arrays, axis=0)
    return columns


def _of_one_network(name: str, found: list[Any]) -> Any:
    """Return the value that all parts which have one share."""
    given = [one for one in found if one is not None and len(one)]
    for other in given[1:]:
        if not np.array_equal(_xp.to_numpy(given[0]), _xp.to_numpy(other)):
            rule = "of one network"
            got = f"different {name}"
            _check.fail("Outputs.concat", "parts", rule, got)
    return given[0] if given else found[0]


def _check_alike(name: str, arrays: list[Any]) -> None:
    """Refuse parts of different widths, array libraries or devices."""
    shapes = [tuple(array.shape[1:]) for array in arrays]
    if len(set(shapes)) > 1:
        widths = ", ".join(str(shape[0]) for shape in shapes)
        msg = f"Outputs.concat: {name} must be equally wide in all parts, got {widths}"
        raise ValueError(msg)
    places = sorted({_xp.describe(array) for array in arrays})
    if len(places) > 1:
        msg = (
            f"Outputs.concat: {name} must share one array library and device, got "
            f"{' and '.join(places)}. Move them with to() or like()"
        )
        raise ValueError(msg)
