"""The wording of every error: ``caller: name must be rule, got value``."""

import operator
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset._types import UNKNOWN, UndefinedMetricError


def must(rule: str, *, caller: str, name: str, got: object, remedy: str = "") -> str:
    """Build the one sentence all our errors share."""
    tail = f". {remedy}" if remedy else ""
    return f"{caller}: {name} must be {rule}, got {got}{tail}"


def instance(
    caller: str, name: str, value: object, kind: type, *, rule: str, remedy: str
) -> None:
    """Raise TypeError unless `value` is of this kind."""
    if not isinstance(value, kind):
        got = type(value).__name__
        raise TypeError(must(rule, caller=caller, name=name, got=got, remedy=remedy))


def boolean(caller: str, name: str, value: Any) -> bool:
    """Return `value`, or say that it is neither True nor False: "no" would be true."""
    if not isinstance(value, bool):
        rule = "True or False"
        raise TypeError(must(rule, caller=caller, name=name, got=repr(value)))
    return value


def positive_int(caller: str, name: str, value: Any) -> int:
    """Return `value` as an int, or say that it is not an integer >= 1."""
    return integer(caller, name, value, low=1)


def integer(caller: str, name: str, value: Any, *, low: int, remedy: str = "") -> int:
    """Return `value` as an int, or say that it is not an integer >= `low`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = low - 1
    if isinstance(value, bool) or number < low:
        rule, got = f"an integer >= {low}", repr(value)
        raise ValueError(must(rule, caller=caller, name=name, got=got, remedy=remedy))
    return number


def number(
    caller: str,
    name: str,
    value: Any,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """Return `value` as a float inside the interval, or say which interval."""
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    ok = is_real and low <= value <= high
    ok = ok and not (open_low and value == low) and not (open_high and value == high)
    if not ok:
        left, right = "(" if open_low else "[", ")" if open_high else "]"
        rule = f"a number in {left}{low:g}, {high:g}{right}"
        msg = must(rule, caller=caller, name=name, got=repr(value))
        raise ValueError(msg)
    return float(value)


def rate(caller: str, name: str, value: Any, *, open_low: bool = False) -> Fraction:
    """Return a rate in [0, 1] as the fraction the caller meant."""
    number(caller, name, value, low=0.0, high=1.0, open_low=open_low)
    return fraction(value)


def fraction(value: float) -> Fraction:
    """Return the simple fraction or decimal a float stands for.

    Neither 0.95 nor 1/3 is a binary number, but 19/20 and 1/3 are what was meant: so
    "95 % of 20 samples" is 19 samples, and equal weights compare equal.
    """
    simple = Fraction(float(value)).limit_denominator(10**6)
    return simple if float(simple) == float(value) else Fraction(str(float(value)))


def one_of(caller: str, name: str, value: Any, options: Sequence[str]) -> str:
    """Return `value` if it is one of the options, else list them."""
    if not isinstance(value, str) or value not in options:
        rule = "one of " + ", ".join(repr(option) for option in options)
        remedy = near(value, options)
        msg = must(rule, caller=caller, name=name, got=repr(value), remedy=remedy)
        raise ValueError(msg)
    return value


def near(value: Any, options: Sequence[str]) -> str:
    """Ask whether a misspelt value is the option most like it; "" if none is.

    Examples
    --------
    >>> near("wieght", ["smoothing", "weight"])
    "Did you mean 'weight'?"
    """
    found = get_close_matches(value, options, n=1) if isinstance(value, str) else []
    return f"Did you mean {found[0]!r}?" if found else ""


def threshold(caller: str, value: Any) -> float:
    """Return a threshold as a float; infinities are fine (accept all, reject all)."""
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    if not is_real or np.isnan(float(value)):
        msg = must(
            "a number that is not NaN",
            caller=caller,
            name="threshold",
            got=repr(value),
            remedy="A sample is accepted iff its knownness is >= threshold",
        )
        raise ValueError(msg)
    return float(value)


def labels(caller: str, name: str, values: Any, *, lowest: int) -> NDArray[np.int64]:
    """Return a read-only int64 vector with no entry below `lowest`."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        if array.size == 0:
            array = array.astype(np.int64)
        else:
            msg = must(
                "integers",
                caller=caller,
                name=name,
                got=f"dtype {array.dtype}",
                remedy=f"Number the known classes 0..C-1 and use {UNKNOWN} for unknown",
            )
            raise TypeError(msg)
    vector(caller, name, array)
    array = array.astype(np.int64, copy=False)
    if array.min() < lowest:
        rule = f">= {lowest}"
        remedy = (
            "The only negative label is -1 (unknown); say where unknowns come from "
            "in groups"
            if lowest == UNKNOWN
            else "It is the argmax of the logits; rejection is decided by a threshold"
        )
        got = str(array.min())
        raise ValueError(must(rule, caller=caller, name=name, got=got, remedy=remedy))
    return owned(array, values)


def vector(caller: str, name: str, array: NDArray[Any]) -> None:
    """Refuse anything but a vector with at least one entry."""
    if array.ndim != 1:
        got = f"shape {array.shape}"
        raise ValueError(must("one-dimensional", caller=caller, name=name, got=got))
    if array.size == 0:
        got = "0 samples"
        raise ValueError(must("non-empty", caller=caller, name=name, got=got))


def rows(caller: str, values: Any, n: int) -> Any:
    """Return a slice, or a vector of indices or flags, that selects some of n rows."""
    if isinstance(values, slice):
        index: Any = values
        n_chosen = len(range(*values.indices(n)))
    else:
        index = np.asarray(values)
        if index.size == 0:
            index = index.astype(np.intp)
        if index.ndim != 1 or index.dtype.kind not in "iub":
            rule = "a slice, or a vector of indices or of True and False"
            got = f"shape {index.shape} of {index.dtype}"
            raise TypeError(must(rule, caller=caller, name="rows", got=got))
        is_mask = index.dtype.kind == "b"
        if is_mask and index.size != n:
            rule, got = f"a mask of {n} samples", f"one of {index.size}"
            raise ValueError(must(rule, caller=caller, name="rows", got=got))
        n_chosen = int(np.count_nonzero(index)) if is_mask else index.size
    if n_chosen == 0:
        got = "a selection of no samples"
        raise ValueError(must("non-empty", caller=caller, name="rows", got=got))
    return index


def same_length(caller: str, lengths: dict[str, int]) -> int:
    """Return the common length, or list who has which."""
    if len(set(lengths.values())) != 1:
        names, sizes = " and ".join(lengths), ", ".join(map(str, lengths.values()))
        msg = f"{caller}: {names} must have the same length, got {sizes}"
        raise ValueError(msg)
    return next(iter(lengths.values()))


def names(caller: str, name: str, values: Any) -> NDArray[Any]:
    """Return names of samples as a read-only vector of strings or integers."""
    array = np.asarray(values)
    if array.dtype.kind == "O" and all(isinstance(v, str) for v in array.ravel()):
        array = array.astype(np.str_)
    if array.dtype.kind not in "iuU":
        got = f"dtype {array.dtype}"
        raise TypeError(must("strings or integers", caller=caller, name=name, got=got))
    vector(caller, name, array)
    return owned(array, values)


def owned(array: NDArray[Any], given: Any) -> NDArray[Any]:
    """Return `array`, made from what a caller gave, so that nobody can change it.

    Memory that the caller could still write to is copied; read-only arrays of
    read-only memory are not. A memory map stays a view of its file.

    Examples
    --------
    >>> mine = np.array([1.0, 2.0])
    >>> kept = owned(mine, mine)
    >>> mine[0] = np.nan
    >>> kept
    array([1., 2.])
    """
    if _is_mapped(array):
        return read_only(array)
    is_new = isinstance(given, list | tuple | range) or not np.may_share_memory(
        array, given
    )
    if not is_new and _is_writeable(array):
        array = array.copy()
    # A view of read-only memory: its flag cannot be set back.
    return frozen(array).view()


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Make a new array, which nobody else has, read-only."""
    array.flags.writeable = False
    return array


def restore(value: object, state: Mapping[str, Any]) -> None:
    """Give an unpickled or copied value its fields back, arrays read-only."""
    for name, field in state.items():
        is_array = isinstance(field, np.ndarray)
        object.__setattr__(value, name, frozen(field) if is_array else field)


def _is_mapped(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


def _is_writeable(array: Any) -> bool:
    """Tell whether the memory can be written to through this array or a base of it."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written through; the caller's own stays as it is."""
    view = array.view()
    view.flags.writeable = False
    return view


def both_sides(caller: str, n_known: int, n_unknown: int) -> None:
    """Refuse data without knowns or without unknowns: the metric is undefined."""
    for side, n in (("known", n_known), ("unknown", n_unknown)):
        if n == 0:
            msg = (
                f"{caller}: undefined without {side} samples, got {n_known} known and "
                f"{n_unknown} unknown (label {UNKNOWN}). Add {side} samples, or use a "
                f"metric of the {'unknown' if side == 'known' else 'known'} side alone"
            )
            raise UndefinedMetricError(msg)


def some_known(caller: str, n_known: int) -> None:
    """Refuse data without knowns."""
    if n_known == 0:
        msg = f"{caller}: undefined without known samples, got 0 known"
        raise UndefinedMetricError(msg)
