"""`Outputs`: the outputs of a network on one split, in the caller's array library."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openset import _check, _io, _xp
from openset._types import UNKNOWN, Array
from openset.outputs import files
from openset.outputs.checks import (
    IN_ONE_PLACE,
    are_probabilities,
    check_together,
    class_names,
    need_all_valid,
    need_one_place,
    numbered_labels,
    picked,
    real_array,
)
from openset.outputs.files import ABOUT, ARRAYS, PER_SAMPLE
from openset.outputs.invalid import Invalid, invalid_rows, is_suspect

_Outputs = TypeVar("_Outputs", bound="Outputs")


@dataclass(frozen=True, kw_only=True, eq=False)
class Outputs:
    """Logits, features and labels of one split, as a network produced them.

    Arrays keep their library (NumPy, torch, ...) and device; labels and groups are
    NumPy arrays. Writeable NumPy arrays are copied, so that outputs never change.
    Memory maps and tensors of other libraries are not copied: do not change the file or
    the tensor. Memory maps are not read here; invalid samples in them are reported when
    they are scored.

    Parameters
    ----------
    logits
        Shape (n, C). May be omitted if `features` are given.
    features
        Input of the last linear layer, shape (n, d).
    labels
        ``0..C-1``, or -1 for samples of no known class. With `classes` also their
        names, and "unknown" for samples of no known class. If omitted, the data are
        unlabelled: they can be predicted, but not evaluated.
    groups
        Where a sample comes from: strings or integers, shape (n,).
    ids
        Identifier of each sample, such as a file name: strings or integers, shape (n,).
    classes
        Names of the C known classes.
    weight, bias
        The last linear layer, ``logits = features @ weight.T + bias``: shapes (C, d)
        and (C,). Detectors that change features before the last layer need them.
    input_step
        How the inputs were perturbed along a gradient before the network saw them, in
        words; empty if they were not. :func:`openset.extract.extract` sets it. A
        rejector refuses outputs of another step than that of its calibration.
    invalid
        What to do with *invalid* samples: those with NaN, and those with several logits
        of +inf, or none above -inf, whose class is not determined. ``"error"`` refuses
        them. ``"keep"`` keeps them for ``Rejector.decide(..., invalid="reject")``;
        everything else refuses outputs with such samples (see :attr:`is_invalid`).

    Examples
    --------
    >>> train = Outputs(logits=[[4.0, 0.0], [0.0, 4.0]], labels=[0, 1])
    >>> train
    Outputs(n=2, logits=(2, 2) float64, numpy)
    >>> train.take([1]).labels
    array([1])
    """

    logits: Array | None = None
    features: Array | None = None
    labels: NDArray[np.int64] | None = None
    groups: NDArray[Any] | None = None
    ids: NDArray[Any] | None = None
    classes: tuple[str, ...] = ()
    weight: Array | None = None
    bias: Array | None = None
    input_step: str = ""
    invalid: Invalid = "error"

    def __init__(
        self,
        *,
        logits: Any = None,
        features: Any = None,
        labels: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        classes: Any = (),
        weight: Any = None,
        bias: Any = None,
        input_step: Any = "",
        invalid: Any = "error",
    ) -> None:
        if logits is None and features is None:
            _check.fail("Outputs", "logits or features", "given", "neither")
        _check.one_of("Outputs", "invalid", invalid, get_args(Invalid))
        keeps = invalid == "keep"
        names = {"groups": groups, "ids": ids}
        rows = {"logits": logits, "features": features, "labels": labels}
        _check.same_order("Outputs", rows | names)
        fields: dict[str, Any] = {
            "logits": real_array("logits", logits, ndim=2, keeps_invalid=keeps),
            "features": real_array("features", features, ndim=2, keeps_invalid=keeps),
            "classes": class_names(classes, logits),
            "weight": real_array("weight", weight, ndim=2),
            "bias": real_array("bias", bias, ndim=1),
            "input_step": str(input_step),
            "invalid": invalid,
        }
        fields["labels"] = numbered_labels(labels, fields["classes"])
        for name, given in names.items():
            if given is not None:
                fields[name] = _check.names("Outputs", name, given)
        vars(self).update(fields)
        check_together(self)
        if are_probabilities(self.logits):
            msg = (
                "Outputs: logits look like probabilities: they are in [0, 1], and rows "
                "add up to 1. Most detectors need what goes into the softmax. If you "
                "have probabilities p only, give numpy.log(p)"
            )
            warnings.warn(msg, stacklevel=2)

    def __len__(self) -> int:
        return int(self._any_array().shape[0])

    def __setstate__(self, state: dict[str, Any]) -> None:
        _check.restore(self, state)

    def __repr__(self) -> str:
        parts = [f"n={len(self)}"]
        for name in ("logits", "features"):
            array = getattr(self, name)
            if array is not None:
                dtype = str(array.dtype).removeprefix("torch.")
                parts.append(f"{name}={tuple(array.shape)} {dtype}")
        if self.weight is not None:
            parts.append("head")
        if self.input_step:
            parts.append(self.input_step)
        if self.groups is not None:
            parts.append(f"groups={np.unique(self.groups).size}")
        parts.append(_xp.describe(self._any_array()))
        return f"Outputs({', '.join(parts)})"

    def _any_array(self) -> Array:
        return self.logits if self.logits is not None else self.features

    @property
    def n_classes(self) -> int | None:
        """Number of known classes; None without logits, head and class names."""
        if self.logits is not None:
            return int(self.logits.shape[1])
        if self.weight is not None:
            return int(self.weight.shape[0])
        return len(self.classes) or None

    @property
    def nbytes_per_sample(self) -> int:
        """Bytes of logits and features of one sample."""
        arrays = [a for a in (self.logits, self.features) if a is not None]
        bits = [_xp.array_namespace(a).finfo(a.dtype).bits for a in arrays]
        return sum(int(a.shape[1]) * b // 8 for a, b in zip(arrays, bits, strict=True))

    @cached_property
    def is_invalid(self) -> NDArray[np.bool_]:
        """Mask of the invalid samples; of a memory map, all of it is read.

        Examples
        --------
        >>> outputs = Outputs(logits=[[1.0, 0.0], [np.nan, 0.0]], invalid="keep")
        >>> outputs.is_invalid
        array([False,  True])
        >>> outputs.take(~outputs.is_invalid)
        Outputs(n=1, logits=(1, 2) float64, numpy)
        """
        found = np.zeros(len(self), dtype=bool)
        for name in ("logits", "features"):
            array, are_logits = getattr(self, name), name == "logits"
            if array is not None and is_suspect(array, are_logits=are_logits):
                found |= invalid_rows(array, are_logits=are_logits)
        return _check.frozen(found)

    def take(self, rows: Any) -> Self:
        """Return the samples that `rows` (a mask, slice or indices) selects.

        A slice of a memory-mapped or in-memory array is a view: nothing is copied.
        """
        _check.unmasked("Outputs.take", "rows", rows)
        chosen = rows if isinstance(rows, slice) else _xp.to_numpy(rows)
        index = _check.rows("Outputs.take", chosen, len(self))
        arrays = {name: getattr(self, name) for name in PER_SAMPLE}
        given = {name: array for name, array in arrays.items() if array is not None}
        return replaced(self, **{n: picked(array, index) for n, array in given.items()})

    def as_unknown(self) -> Self:
        """Return the same samples, each with the label -1.

        Examples
        --------
        >>> Outputs(logits=[[1.0, 0.0]]).as_unknown().labels
        array([-1])
        """
        return replaced(self, labels=np.full(len(self), UNKNOWN))

    @classmethod
    def concat(cls, parts: "list[Outputs]") -> Self:
        """Concatenate several splits of one network. Ids stay if all parts have some.

        Classes, head and perturbation must be the same; parts may lack the first two.
        """
        caller, parts = "Outputs.concat", list(parts)
        if not parts:
            _check.fail(caller, "parts", "a non-empty list", "[]")
        for part in parts:
            need_kind(caller, "parts", part)
        fields: dict[str, Any] = {}
        for name in ("classes", "weight", "bias", "input_step"):
            found = [getattr(part, name) for part in parts]
            if name != "input_step":  # none is a step, too
                found = [one for one in found if one is not None and len(one)] or found
            fields[name] = found[0]
            first, *others = map(_xp.to_numpy, found)
            if not all(np.array_equal(first, one) for one in others):
                _check.fail(caller, "parts", "of one network", f"different {name}")
        if any(part.invalid == "keep" for part in parts):
            fields["invalid"] = "keep"
        for name in PER_SAMPLE:
            fields[name] = _joined(name, [getattr(part, name) for part in parts])
        return replaced(parts[0], **fields)  # type: ignore[return-value]

    def batches(self, size: int) -> "Iterator[Outputs]":
        """Split into batches of at most `size` samples, as views."""
        _check.positive_int("Outputs.batches", "size", size)
        yield from map(self.take, _xp.runs(len(self), size))

    def to(self, place: Any) -> Self:
        """Move the arrays to another device, or to NumPy with ``to("numpy")``."""
        if place == "numpy":
            return self._moved(_xp.to_numpy)
        return self._moved(lambda array: _xp.to_device(array, place))

    def like(self, other: "Outputs") -> Self:
        """Move the arrays to the library and device of other outputs.

        Examples
        --------
        >>> ours = Outputs(logits=[[1.0, 0.0]])
        >>> ours.like(Outputs(logits=[[2.0, 3.0]]))
        Outputs(n=1, logits=(1, 2) float64, numpy)
        """
        model = other._any_array()
        return self._moved(lambda array: _xp.moved(_xp.to_numpy(array), model))

    def _moved(self, move: Callable[[Any], Any]) -> Self:
        arrays = {name: getattr(self, name) for name in IN_ONE_PLACE}
        moved = {n: move(a) for n, a in arrays.items() if a is not None}
        return replaced(self, **moved)

    def save(self, path: str | Path) -> Path:
        """Write a ``.npz`` file; for a name without ending, a folder of ``.npy`` files.

        :meth:`load` memory-maps such a folder instead of reading it. What is there
        already is kept until the new outputs are complete, and then replaced.
        """
        path = Path(path)
        arrays = {name: getattr(self, name) for name in ARRAYS}
        arrays = {n: _xp.to_numpy(a) for n, a in arrays.items() if a is not None}
        files.write(path, arrays, {name: getattr(self, name) for name in ABOUT})
        return path

    @classmethod
    def load(cls, path: str | Path, *, invalid: Invalid = "error") -> Self:
        """Read a ``.npz`` file, or memory-map a folder of ``.npy`` files.

        `invalid` says what to do with invalid samples, see :class:`Outputs`.
        """
        path = Path(path)
        fields = files.read(path)
        with _io.naming(path):
            return cls(**fields, invalid=invalid)


def replaced(outputs: _Outputs, **changes: Any) -> _Outputs:
    """Return outputs with other arrays, which are not checked.

    For arrays that were computed from checked ones, and that no caller can modify.
    """
    other = object.__new__(type(outputs))
    for name in (*ARRAYS, *ABOUT, "invalid"):
        value = changes.get(name, getattr(outputs, name))
        if isinstance(value, np.ndarray):
            _check.frozen(value)
        object.__setattr__(other, name, value)
    return other


def need_outputs(caller: str, name: str, value: Any, remedy: str = "") -> None:
    """Raise unless the argument is `Outputs`, without invalid samples if in memory."""
    need_kind(caller, name, value, remedy)
    need_all_valid(caller, name, value)


def need_kind(caller: str, name: str, value: object, remedy: str = "") -> None:
    """Raise TypeError if the argument is not `Outputs`."""
    remedy = remedy or "Wrap your arrays: Outputs(logits=..., labels=...)"
    _check.instance(caller, name, value, Outputs, rule="Outputs", remedy=remedy)


def _joined(name: str, arrays: list[Any]) -> Any:
    """Concatenate an array of all parts; None if no part has one."""
    caller, missing = "Outputs.concat", sum(array is None for array in arrays)
    if missing == len(arrays) or (missing and name == "ids"):
        return None
    if missing:
        got = f"{missing} of {len(arrays)} without"
        _check.fail(caller, name, "given for all parts or for none", got)
    if name in {"groups", "ids"}:  # of integers with and without a sign: floats
        return _check.names(caller, name, np.concatenate(arrays))
    need_one_place(caller, {f"{name} {i}": one for i, one in enumerate(arrays)})
    return _xp.array_namespace(*arrays).concat(arrays, axis=0)
