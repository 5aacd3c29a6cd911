"""Checks of outputs: of each array alone, of all together, and of arguments."""

from functools import partial
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openset import _check, _class_names, _xp
from openset._types import UNKNOWN, Array, InvalidSamplesError
from openset.outputs.files import PER_SAMPLE
from openset.outputs.invalid import need_valid

if TYPE_CHECKING:
    from openset.outputs.outputs import Outputs  # it imports us

# In the caller's array library and on one device; the other arrays are NumPy's.
IN_ONE_PLACE = ("logits", "features", "weight", "bias")

_OTHERS = "Label samples of other classes -1"
_ONE_LOGIT = (
    f"{_OTHERS}. Two classes with one logit z take two columns: "
    "numpy.stack([-z, z], axis=1) / 2 has the same probabilities"
)
_LOOKED_AT = 64  # rows of logits that are compared with probabilities
_LEAST_ROWS = 8  # fewer may look like probabilities by chance
_ROUNDING = 1e-2  # of probabilities in half precision


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
    kinds = ("real floating", "integral")
    if not _xp.array_namespace(array).isdtype(array.dtype, kinds):
        got = f"dtype {str(array.dtype).removeprefix('torch.')}"
        _check.fail("Outputs", name, "real", got, error=TypeError)
    if array.ndim != ndim or 0 in array.shape:
        rule = f"a non-empty array of {ndim} dimension{'s' if ndim > 1 else ''}"
        _check.fail("Outputs", name, rule, f"shape {tuple(array.shape)}")
    array = _xp.as_float(array)
    if isinstance(array, np.memmap):
        return array  # read and checked batch by batch
    if name in {"logits", "features"}:
        if not keeps_invalid:
            need_valid("Outputs", name, array)
    elif (is_nan := np.isnan(_xp.to_numpy(array))).any():
        got = f"NaN in row {np.argwhere(is_nan)[0, 0]}"
        _check.fail("Outputs", name, "free of NaN", got)
    return _check.owned(array, values) if isinstance(array, np.ndarray) else array


def class_names(classes: Any, logits: Any) -> tuple[str, ...]:
    """Return the names of the classes; raise if one is missing.

    A table of logits may name its columns: these must be in the same order.
    """
    given = tuple(classes)
    for i, one in enumerate(given):
        if one is None or one == "" or (isinstance(one, float) and isnan(one)):
            _check.fail("Outputs", "classes", "names", f"none for class {i}")
    names, columns = (
        tuple(map(str, one)) for one in (given, getattr(logits, "columns", ()))
    )
    if columns != names and sorted(columns) == sorted(names):
        rule = "in the order of the columns of logits"
        _check.fail("Outputs", "classes", rule, names, "Give logits[list(classes)]")
    return names


def numbered_labels(labels: Any, classes: tuple[str, ...]) -> NDArray[np.int64] | None:
    """Return labels as numbers."""
    if labels is None:
        return None
    _check.unmasked("Outputs", "labels", labels)
    values = _xp.to_numpy(labels) if _xp.is_array_api_obj(labels) else labels
    if _class_names.is_text(values):
        values = _class_names.numbers_of("Outputs", values, classes)
    return _check.labels("Outputs", "labels", values, lowest=UNKNOWN)


def check_together(outputs: "Outputs") -> None:
    """Raise if the arrays differ in samples, places, classes or columns."""
    per_sample = {name: getattr(outputs, name) for name in PER_SAMPLE}
    lengths = {n: a.shape[0] for n, a in per_sample.items() if a is not None}
    _check.same_length("Outputs", lengths)
    found = {name: getattr(outputs, name) for name in IN_ONE_PLACE}
    need_one_place("Outputs", {n: a for n, a in found.items() if a is not None})
    logits, features, weight = outputs.logits, outputs.features, outputs.weight
    counts = {
        "columns of logits": None if logits is None else logits.shape[1],
        "rows of weight": None if weight is None else weight.shape[0],
        "entries of bias": None if outputs.bias is None else outputs.bias.shape[0],
        "class names": len(outputs.classes) or None,
    }
    given = {what: count for what, count in counts.items() if count is not None}
    if len({*given.values()}) > 1:
        got = ", ".join(f"{count} {what}" for what, count in given.items())
        _check.fail("Outputs", "class counts", "equal", got)
    n_features = None if features is None else features.shape[1]
    if weight is not None and n_features not in {None, weight.shape[1]}:
        got = f"{weight.shape[1]} for {n_features} features"
        _check.fail("Outputs", "weight", "as wide as features", got)
    if given and outputs.labels is not None:
        n_classes, highest = next(iter(given.values())), int(outputs.labels.max())
        if highest >= n_classes:
            rule = f"below {n_classes}, the number of classes"
            remedy = _ONE_LOGIT if n_classes == 1 else _OTHERS
            _check.fail("Outputs", "labels", rule, highest, remedy)


def need_one_place(caller: str, arrays: dict[str, Array]) -> None:
    """Raise unless arrays are of one library and on one device."""
    places = {name: _xp.describe(array) for name, array in arrays.items()}
    if len({*places.values()}) > 1:
        rule, got = "arrays of one library on one device", " and ".join(places.values())
        _check.fail(caller, " and ".join(places), rule, got)


def picked(array: Array, index: slice | NDArray[np.intp], axis: int = 0) -> Array:
    """Return rows or columns of an array of any library: a slice, or by number."""
    if isinstance(array, np.ndarray) or isinstance(index, slice):
        return array[index, ...] if axis == 0 else array[:, index]
    xp = _xp.array_namespace(array)
    return xp.take(array, xp.asarray(index, device=_xp.device(array)), axis=axis)


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


def need_all_valid(caller: str, name: str, outputs: "Outputs") -> None:
    """Raise if outputs that keep invalid samples have some."""
    if outputs.invalid == "keep" and outputs.is_invalid.any():
        rows = np.flatnonzero(outputs.is_invalid).tolist()
        remedy = (
            "Leave them out: outputs.take(~outputs.is_invalid). Only a rejector "
            "answers them: predict(outputs, invalid='reject')"
        )
        got = f"{len(rows)}, first in row {rows[0]}"
        error = partial(InvalidSamplesError, rows=rows)
        _check.fail(caller, name, "without invalid samples", got, remedy, error)


def need_same_classes(
    caller: str, outputs: "Outputs", classes: tuple[str, ...], *, of: str, name: str
) -> None:
    """Raise if both name their classes, and do so differently.

    Class 0 of one would be another class of the other. Outputs without names pass.
    """
    pairs = zip(outputs.classes, classes, strict=False)  # lengths: checked as widths
    for place, (one, other) in enumerate(pairs):
        if one != other:
            rule = f"those of {of}, in the same order"
            got = f"{one!r} for class {place}, which is {other!r} there"
            remedy = (
                "Take outputs of the same network. If only the spelling differs, make "
                "the outputs without classes="
            )
            _check.fail(caller, f"classes of {name}", rule, got, remedy)
