"""The wording of every error: ``caller: name must be rule, got value``."""

import operator
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from fractions import Fraction
from numbers import Real
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from openset._types import UNKNOWN, UndefinedMetricError

_MOST_PADDED = 10_000_000  # characters of padding that texts may have in any case


def fail(  # noqa: PLR0917  # in the order of the sentence
    caller: str,
    name: str,
    rule: str,
    got: object,
    remedy: str = "",
    error: Callable[[str], Exception] = ValueError,
) -> NoReturn:
    """Raise ``caller: name must be rule, got value``; all refusals have this form.

    Examples
    --------
    >>> fail("KNN", "k", "in [1, 20]", 50, "Give more training samples")
    Traceback (most recent call last):
    ...
    ValueError: KNN: k must be in [1, 20], got 50. Give more training samples
    """
    tail = f". {remedy}" if remedy else ""
    msg = f"{caller}: {name} must be {rule}, got {got}{tail}"
    raise error(msg)


def instance(
    caller: str, name: str, value: object, kind: type, *, rule: str, remedy: str
) -> None:
    """Raise TypeError unless `value` is an instance of this type."""
    if not isinstance(value, kind):
        fail(caller, name, rule, type(value).__name__, remedy, TypeError)


def boolean(caller: str, name: str, value: Any) -> bool:
    """Return `value`; raise unless it is True or False (the string "no" is truthy)."""
    if not isinstance(value, bool):
        fail(caller, name, "True or False", repr(value), error=TypeError)
    return value


def positive_int(caller: str, name: str, value: Any) -> int:
    """Return `value` as an int; raise unless it is an integer >= 1."""
    return integer(caller, name, value, low=1)


def integer(caller: str, name: str, value: Any, *, low: int, remedy: str = "") -> int:
    """Return `value` as an int; raise unless it is an integer >= `low`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = low - 1
    if isinstance(value, bool) or number < low:
        fail(caller, name, f"an integer >= {low}", repr(value), remedy)
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
    """Return `value` as a float; raise unless it is in the interval."""
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    is_end = (open_low and value == low) or (open_high and value == high)
    if not is_real or is_end or not low <= value <= high:
        left, right = "(" if open_low else "[", ")" if open_high else "]"
        rule = f"a number in {left}{low:g}, {high:g}{right}"
        fail(caller, name, rule, repr(value))
    return float(value)


def open_unit(caller: str, name: str, value: Any) -> float:
    """Return `value` as a float; raise unless it is in (0, 1), both ends excluded."""
    return number(caller, name, value, low=0, high=1, open_low=True, open_high=True)


def rate(caller: str, name: str, value: Any, *, open_low: bool = False) -> Fraction:
    """Return a rate in [0, 1] as an exact fraction."""
    number(caller, name, value, low=0.0, high=1.0, open_low=open_low)
    return fraction(value)


def fraction(value: float) -> Fraction:
    """Return the simple fraction or decimal closest to a float.

    Floats cannot represent 0.95 or 1/3 exactly, but 19/20 and 1/3 were meant: so "95 %
    of 20 samples" is 19 samples, and equal weights compare equal.

    Examples
    --------
    >>> fraction(1 / 3), fraction(np.float32(0.35))
    (Fraction(1, 3), Fraction(7, 20))
    """
    # float16 and float32 have fewer digits: what was meant is in their own precision
    kind = type(value) if isinstance(value, np.float16 | np.float32) else float
    given = kind(value)
    digits = min(np.finfo(kind).precision // 2, 6)
    simple = Fraction(float(given)).limit_denominator(10**digits)
    return simple if kind(float(simple)) == given else Fraction(str(given))


def one_of(
    caller: str, name: str, value: Any, options: Sequence[str], *, remedy: str = ""
) -> str:
    """Return `value` if it is one of the options; else raise and list them."""
    if not isinstance(value, str) or value not in options:
        rule = f"one of {', '.join(map(repr, options))}"
        remedy = f"{near(value, options)} {remedy}".strip()
        fail(caller, name, rule, repr(value), remedy)
    return value


def ending(caller: str, path: Path, options: Sequence[str]) -> str:
    """Return the ending of a file's name; raise unless it is one of these."""
    return one_of(caller, f"the ending of {path.name}", path.suffix, options)


def near(value: Any, options: Sequence[str]) -> str:
    """Suggest the option most similar to a misspelt value; "" if none is similar.

    Examples
    --------
    >>> near("wieght", ["smoothing", "weight"])
    "Did you mean 'weight'?"
    """
    found = get_close_matches(value, options, n=1) if isinstance(value, str) else []
    return f"Did you mean {found[0]!r}?" if found else ""


def threshold(caller: str, value: Any) -> float:
    """Return a threshold as a float; ±inf is allowed (accept all, reject all)."""
    return number(caller, "threshold", value)


def labels(caller: str, name: str, values: Any, *, lowest: int) -> NDArray[np.int64]:
    """Return a read-only int64 vector with no entry below `lowest`."""
    unmasked(caller, name, values)
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        got = f"dtype {array.dtype}"
        remedy = f"Number the known classes 0..C-1 and label unknown samples {UNKNOWN}"
        fail(caller, name, "integers", got, remedy, TypeError)
    vector(caller, name, array)
    top = np.iinfo(array.dtype).max
    # With its neighbour it is the number of a class; alone it is -1 more likely.
    if array.dtype.kind == "u" and array.max() == top and not (array == top - 1).any():
        got = f"{top}, which is -1 as {array.dtype}"
        fail(caller, name, "of a type with a sign", got, "Read them as int64")
    array = array.astype(np.int64, copy=False)
    if array.min() < lowest:
        remedy = (
            "The only negative label is -1 (unknown); use groups to say where "
            "unknown samples come from"
            if lowest == UNKNOWN
            else "It is the argmax of the logits; rejection is decided by a threshold"
        )
        fail(caller, name, f">= {lowest}", array.min(), remedy)
    return owned(array, values)


def same_order(caller: str, columns: Mapping[str, Any]) -> None:
    """Raise if pandas columns have the same index in another order.

    Only the order of values is used here: their rows would not belong together.
    """
    indices = {n: one.index for n, one in columns.items() if hasattr(one, "iloc")}
    for name, index in indices.items():
        first = next(iter(indices.values()))
        if not index.equals(first) and set(index) == set(first):
            got, remedy = "the same index in another order", "Use .loc, or .to_numpy()"
            fail(caller, name, f"in the order of {next(iter(indices))}", got, remedy)


def unmasked(caller: str, name: str, values: Any) -> None:
    """Raise if some values are masked: NumPy would use what is below the mask."""
    if np.ma.is_masked(values):
        got = f"{np.ma.getmaskarray(values).sum()} of {np.size(values)}"
        fail(caller, name, "free of masked values", got, "Leave these samples out")


def vector(caller: str, name: str, array: NDArray[Any]) -> None:
    """Raise unless the array is a vector with at least one entry."""
    if array.ndim != 1:
        fail(caller, name, "one-dimensional", f"shape {array.shape}")
    if array.size == 0:
        fail(caller, name, "non-empty", "0 samples")


def rows(caller: str, values: Any, n: int) -> Any:
    """Return the slice or the numbers of rows that a slice, mask or indices select."""
    unmasked(caller, "rows", values)
    rule = "a slice, a mask or indices that select samples"
    if isinstance(values, slice):
        if not range(*values.indices(n)):
            fail(caller, "rows", rule, values)
        return values
    index = np.asarray(values)
    if index.dtype == bool:
        index = np.arange(n)[index]  # NumPy says what is wrong with a mask
    if index.ndim != 1 or not index.size:
        fail(caller, "rows", rule, values)
    return index


def same_length(caller: str, lengths: dict[str, int]) -> int:
    """Return the common length; else raise and list the lengths."""
    if len(set(lengths.values())) != 1:
        names, sizes = " and ".join(lengths), ", ".join(map(str, lengths.values()))
        msg = f"{caller}: {names} must have the same length, got {sizes}"
        raise ValueError(msg)
    return next(iter(lengths.values()))


def names(caller: str, name: str, values: Any) -> NDArray[Any]:
    """Return names of samples as a read-only vector of strings or integers."""
    unmasked(caller, name, values)
    # As objects: NumPy would make text of all, also of NaN, a missing name.
    array = np.asarray(values, object if isinstance(values, list | tuple) else None)
    if array.dtype.kind == "O":
        n_texts = sum(isinstance(one, str) for one in array.ravel())
        if 0 < n_texts < array.size:
            rule = "all strings or all integers"
            fail(
                caller, name, rule, f"{n_texts} strings of {array.size}", "", TypeError
            )
        given = array.tolist()
        array = texts(caller, name, given) if n_texts else np.asarray(given)
    if array.dtype.kind not in "iuU":
        got = f"dtype {array.dtype}"
        fail(caller, name, "strings or integers", got, error=TypeError)
    vector(caller, name, array)
    return owned(array, values)


def texts(caller: str, name: str, values: Sequence[str]) -> NDArray[np.str_]:
    """Return texts as an array; refuse those that would take gigabytes.

    In an array each takes as much as the longest: a file of a megabyte, with one cell
    of 100,000 characters and 100,000 of ten, would take 40 GB.
    """
    lengths = [len(one) for one in values]
    longest = max(lengths, default=0)
    if longest * len(lengths) > 16 * sum(lengths) + _MOST_PADDED:
        got = f"one of {longest} characters among {len(lengths)}"
        fail(caller, name, "texts of similar lengths", got, "Shorten it")
    return np.array(values, dtype=np.str_)


def owned(array: NDArray[Any], given: Any) -> NDArray[Any]:
    """Return a version of `array` that the caller can no longer change.

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
    bases = [array]
    while isinstance(bases[-1].base, np.ndarray):
        bases.append(bases[-1].base)
    if any(isinstance(one, np.memmap) for one in bases):
        return read_only(array)
    is_new = isinstance(given, list | tuple | range) or not np.may_share_memory(
        array, given
    )
    if not is_new and any(one.flags.writeable for one in bases):
        array = array.copy()
    # A view of read-only memory: its flag cannot be set back.
    return frozen(array).view()


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Make a new array read-only; no other reference to it may exist."""
    array.flags.writeable = False
    return array


def restore(value: object, state: Mapping[str, Any]) -> None:
    """Set the fields of an unpickled or copied value, with read-only arrays."""
    vars(value).update(state)  # a frozen dataclass
    for field in state.values():
        if isinstance(field, np.ndarray):
            frozen(field)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view; the caller's own array stays writeable."""
    view = array.view()
    view.flags.writeable = False
    return view


def both_sides(caller: str, n_known: int, n_unknown: int) -> None:
    """Raise if there are no known or no unknown samples: the metric is undefined."""
    some_known(caller, n_known)
    if n_unknown == 0:
        msg = (
            f"{caller}: undefined without unknown samples, got {n_known} known and 0 "
            f"unknown (label {UNKNOWN}, or what unknown_label= says). Add unknown "
            "samples, or use a metric that needs only known samples"
        )
        raise UndefinedMetricError(msg)


def some_known(caller: str, n_known: int) -> None:
    """Raise if there are no known samples."""
    if n_known == 0:
        msg = f"{caller}: undefined without known samples, got 0 known"
        raise UndefinedMetricError(msg)


def need_same_file(path: Path, data: Path, *, caller: str) -> None:
    """Refuse negatives in another file of the same name: it names the data set.

    Paths that do not exist are names of data sets, whose classes are what they say.
    """
    if path.exists() and data.exists() and not path.samefile(data):
        rule = "a file or folder with another name than the training data"
        fail(caller, "negatives", rule, f"{path} beside {data}")
