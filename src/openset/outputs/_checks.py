"""Checks of the arrays of `Outputs`: each alone, and all together."""

from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _xp
from openset._types import Array
from openset.outputs._fields import IN_ONE_PLACE, PER_SAMPLE
from openset.outputs._invalid import need_valid

if TYPE_CHECKING:
    from openset.outputs._outputs import Outputs  # it imports us

_ONE_LOGIT = (
    "Label samples of other classes -1. Two classes with one logit z take two columns: "
    "numpy.stack([-z, z], axis=1) / 2 has the same probabilities"
)
_LOOKED_AT = 64  # rows of logits that are compared with probabilities
_LEAST_ROWS = 8  # fewer may look like probabilities by chance
_ROUNDING = 1e-2  # of probabilities in half precision


def _is_real(array: Array) -> bool:
    if isinstance(array, np.ndarray):  # others are not in the array API
        return array.dtype.kind in "fiu"
    kinds = ("real floating", "integral")
    return bool(_xp.array_namespace(array).isdtype(array.dtype, kinds))


def real_array(
    name: str, values: Any, *, ndim: int, keeps_invalid: bool = False
) -> Array | None:
    """Check dimension, dtype and, if the array is in memory, that its rows are valid.

    With `keeps_invalid`, rows are not looked at.
    """
    if values is None:
        return None
    _check.unmasked("Outputs", name, values)
    array = values if _xp.is_array_api_obj(values) else np.asarray(values)
    if not _is_real(array):
        got = f"dtype {str(array.dtype).removeprefix('torch.')}"
        _check.fail("Outputs", name, "real", got, error=TypeError)
    if array.ndim != ndim or 0 in array.shape:
        rule = f"a non-empty array of {ndim} dimension{'s' if ndim > 1 else ''}"
        got = f"shape {tuple(array.shape)}"
        _check.fail("Outputs", name, rule, got)
    array = _xp.as_float(array)
    if isinstance(array, np.memmap):
        return array  # read and checked batch by batch
    if name not in {"logits", "features"}:
        _need_no_nan(name, array)
    elif not keeps_invalid:
        need_valid("Outputs", name, array)
    return _check.owned(array, values) if isinstance(array, np.ndarray) else array


def _need_no_nan(name: str, array: Array) -> None:
    is_nan = np.isnan(_xp.to_numpy(array))
    if is_nan.any():
        row = int(np.argwhere(is_nan)[0, 0])
        rule, got = "free of NaN", f"NaN in row {row}"
        _check.fail("Outputs", name, rule, got)


def named_layers(pairs: Any) -> tuple[tuple[str, int], ...]:
    """Return the name and the number of columns of each layer."""
    try:
        return tuple((str(name), int(width)) for name, width in pairs)
    except (TypeError, ValueError) as error:
        rule = "(name, number of columns) of each layer"
        got = repr(pairs)
        msg = _check.must(rule, caller="Outputs", name="layers", got=got)
        raise ValueError(msg) from error


def class_names(classes: Any, logits: Any) -> tuple[str, ...]:
    """Return the names of the classes; raise if one is missing.

    A table of logits may name its columns: these must be in the same order.
    """
    given = tuple(classes)
    names = tuple(str(one) for one in given)
    missing = [
        i
        for i, one in enumerate(given)
        if one is None or one == "" or (isinstance(one, float) and isnan(one))
    ]
    if missing:
        got = f"none for class {missing[0]}"
        _check.fail("Outputs", "classes", "names", got)
    columns = tuple(map(str, getattr(logits, "columns", ())))
    if columns != names and sorted(columns) == sorted(names):
        place = next(i for i, name in enumerate(names) if name != columns[i])
        _check.fail(
            "Outputs",
            "classes",
            "in the order of the columns of logits",
            f"{names[place]!r} for the column {columns[place]!r}",
            "Give logits[list(classes)]",
        )
    return names


def check_together(outputs: "Outputs") -> None:
    """Raise if the arrays differ in samples, places, classes or columns."""
    present = {n: getattr(outputs, n) for n in PER_SAMPLE}
    _check.same_length(
        "Outputs", {n: a.shape[0] for n, a in present.items() if a is not None}
    )
    _check_one_place(outputs)
    _check_class_count(outputs)
    _check_layers(outputs)


def _check_one_place(outputs: "Outputs") -> None:
    found = {name: getattr(outputs, name) for name in IN_ONE_PLACE}
    arrays = {name: array for name, array in found.items() if array is not None}
    first, *others = arrays
    for other in others:
        if not _xp.same_place(arrays[first], arrays[other]):
            places = [_xp.describe(arrays[name]) for name in (first, other)]
            msg = (
                f"Outputs: {first} and {other} must share one array library and "
                f"device, got {' and '.join(places)}"
            )
            raise ValueError(msg)


def _check_class_count(outputs: "Outputs") -> None:
    counts: dict[str, int] = {}
    if outputs.logits is not None:
        counts["columns of logits"] = outputs.logits.shape[1]
    if outputs.weight is not None:
        counts["rows of weight"] = outputs.weight.shape[0]
    if outputs.bias is not None:
        counts["entries of bias"] = outputs.bias.shape[0]
    if outputs.classes:
        counts["class names"] = len(outputs.classes)
    if len(set(counts.values())) > 1:
        msg = "Outputs: class counts must agree, got " + ", ".join(
            f"{count} {what}" for what, count in counts.items()
        )
        raise ValueError(msg)
    if outputs.weight is not None and outputs.features is not None:
        d, wanted = outputs.features.shape[1], outputs.weight.shape[1]
        if d != wanted:
            got = f"{wanted} for {d} features"
            rule = "as wide as features"
            _check.fail("Outputs", "weight", rule, got)
    if counts and outputs.labels is not None:
        n_classes = next(iter(counts.values()))
        highest = int(outputs.labels.max())
        if highest >= n_classes:
            _check.fail(
                "Outputs",
                "labels",
                f"below {n_classes}, the number of classes",
                highest,
                _ONE_LOGIT if n_classes == 1 else "Label samples of other classes -1",
            )


def _check_layers(outputs: "Outputs") -> None:
    if not outputs.layers:
        return
    d = 0 if outputs.features is None else int(outputs.features.shape[1])
    widths = [width for _, width in outputs.layers]
    names = {name for name, _ in outputs.layers}
    if sum(widths) != d or min(widths) < 1 or len(names) < len(widths):
        shown = ", ".join(f"{name} {width}" for name, width in outputs.layers)
        _check.fail(
            "Outputs",
            "layers",
            f"different names with the columns of each, {d} in all",
            shown,
        )


def leading_rows(
    array: Array | None, *, mapped: bool = False
) -> NDArray[np.float64] | None:
    """Return the first rows of an array in memory; None if they are too few.

    None, too, for arrays on a GPU, which would have to be waited for, and unless
    `mapped` for files, which are not read before they are used.
    """
    if array is None or array.shape[0] < _LEAST_ROWS:
        return None
    if isinstance(array, np.memmap) and not mapped:
        return None
    if _xp.is_torch_array(array) and array.device.type != "cpu":
        return None
    stop = min(_LOOKED_AT, array.shape[0])
    return _xp.to_numpy(_xp.as_float(array[:stop, ...])).astype(np.float64)


def are_probabilities(logits: Array | None) -> bool:
    """Whether rows add up to 1, as far as they are looked at; not if all are 0 or 1."""
    rows = leading_rows(logits)
    if rows is None or not rows.min() >= 0:  # with NaN it is not
        return False
    close = np.abs(rows.sum(axis=1) - 1) <= _ROUNDING
    return bool(close.all()) and bool(((rows > 0) & (rows < 1)).any())
