"""The wording of every error: ``caller: name must be rule, got value``."""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
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


def must(rule: str, *, caller: str, name: str, got: object, remedy: str = "") -> str:
    """Build an error message; all errors have this form."""
    tail = f". {remedy}" if remedy else ""
    return f"{caller}: {name} must be {rule}, got {got}{tail}"


def instance(
    caller: str, name: str, value: object, kind: type, *, rule: str, remedy: str
) -> None:
    """Raise TypeError unless `value` is an instance of this type."""
    if not isinstance(value, kind):
        got = type(value).__name__
        raise TypeError(must(rule, caller=caller, name=name, got=got, remedy=remedy))


def boolean(caller: str, name: str, value: Any) -> bool:
    """Return `value`; raise unless it is True or False (the string "no" is truthy)."""
    if not isinstance(value, bool):
        rule = "True or False"
        raise TypeError(must(rule, caller=caller, name=name, got=repr(value)))
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
    """Return `value` as a float; raise unless it is in the interval."""
    is_real = isinstance(value, Real) and not isinstance(value, bool)
    ok = is_real and low <= value <= high
    ok = ok and not (open_low and value == low) and not (open_high and value == high)
    if not ok:
        left, right = "(" if open_low else "[", ")" if open_high else "]"
        rule = f"a number in {left}{low:g}, {high:g}{right}"
        msg = must(rule, caller=caller, name=name, got=repr(value))
        raise ValueError(msg)
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


def one_of(caller: str, name: str, value: Any, options: Sequence[str]) -> str:
    """Return `value` if it is one of the options; else raise and list them."""
    if not isinstance(value, str) or value not in options:
        rule = "one of " + ", ".join(repr(option) for option in options)
        remedy = near(value, options)
        msg = must(rule, caller=caller, name=name, got=repr(value), remedy=remedy)
        raise ValueError(msg)
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
    unmasked(caller, name, values)
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
                remedy="Number the known classes 0..C-1 and label unknown samples "
                f"{UNKNOWN}",
            )
            raise TypeError(msg)
    vector(caller, name, array)
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        # Beyond 64 bits with a sign, the largest would become -1, which is unknown.
        rule, got = "integers below 2^63", str(array.max())
        raise ValueError(must(rule, caller=caller, name=name, got=got))
    array = array.astype(np.int64, copy=False)
    if array.min() < lowest:
        rule = f">= {lowest}"
        remedy = (
            "The only negative label is -1 (unknown); use groups to say where "
            "unknown samples come from"
            if lowest == UNKNOWN
            else "It is the argmax of the logits; rejection is decided by a threshold"
        )
        got = str(array.min())
        raise ValueError(must(rule, caller=caller, name=name, got=got, remedy=remedy))
    return owned(array, values)


def no_lost_sign(caller: str, values: Any, remedy: str) -> None:
    """Raise if labels without a sign seem to hold -1, as the largest number.

    That number with its neighbour is that of a class; alone it is -1 more likely.
    """
    array = np.asarray(values)
    if array.dtype.kind != "u" or array.size == 0:
        return
    top = np.iinfo(array.dtype).max
    if array.max() == top and not (array == top - 1).any():
        rule = "of a type with a sign, if unknown samples have the label -1"
        got = f"{top}, which is -1 as {array.dtype}"
        msg = must(rule, caller=caller, name="labels", got=got, remedy=remedy)
        raise ValueError(msg)


def same_order(caller: str, columns: Mapping[str, Any]) -> None:
    """Raise if two columns of pandas have the same index in another order.

    Only the order of values is used here: their rows would not belong together.
    """
    indexes = {name: getattr(one, "index", None) for name, one in columns.items()}
    indexed: dict[str, Any] = {
        name: index for name, index in indexes.items() if hasattr(index, "equals")
    }
    names = list(indexed)
    for name in names[1:]:
        first, other = indexed[names[0]], indexed[name]
        if first.equals(other) or len(first) != len(other):
            continue
        if first.isin(other).all() and other.isin(first).all():
            msg = must(
                f"in the order of {names[0]}",
                caller=caller,
                name=name,
                got="the same index in another order",
                remedy=f"Give {name}.loc[{names[0]}.index]; or {name}.to_numpy() if "
                "only the index is in another order",
            )
            raise ValueError(msg)


def unmasked(caller: str, name: str, values: Any) -> None:
    """Raise if some values are masked: NumPy would use what is below the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        msg = must(
            "free of masked values",
            caller=caller,
            name=name,
            got=f"{int(np.ma.getmaskarray(values).sum())} of {values.size}",
            remedy="Leave these samples out",
        )
        raise ValueError(msg)


def vector(caller: str, name: str, array: NDArray[Any]) -> None:
    """Raise unless the array is a vector with at least one entry."""
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
        unmasked(caller, "rows", values)
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
    """Return the common length; else raise and list the lengths."""
    if len(set(lengths.values())) != 1:
        names, sizes = " and ".join(lengths), ", ".join(map(str, lengths.values()))
        msg = f"{caller}: {names} must have the same length, got {sizes}"
        raise ValueError(msg)
    return next(iter(lengths.values()))


def names(caller: str, name: str, values: Any) -> NDArray[Any]:
    """Return names of samples as a read-only vector of strings or integers."""
    unmasked(caller, name, values)
    if isinstance(values, list | tuple):
        need_similar_lengths(caller, name, values)
    array = np.asarray(values)
    if array.dtype.kind == "O" and all(isinstance(v, str) for v in array.ravel()):
        need_similar_lengths(caller, name, array.ravel())
        array = array.astype(np.str_)
    if array.dtype.kind not in "iuU":
        got = f"dtype {array.dtype}"
        raise TypeError(must("strings or integers", caller=caller, name=name, got=got))
    vector(caller, name, array)
    if array.dtype.kind == "U" and isinstance(values, list | tuple):
        # NumPy made text of everything: NaN, a missing name, became "nan".
        row = next((i for i, v in enumerate(values) if not isinstance(v, str)), None)
        if row is not None:
            rule, got = "all strings or all integers", f"{values[row]!r} in row {row}"
            raise TypeError(must(rule, caller=caller, name=name, got=got))
    return owned(array, values)


def need_similar_lengths(caller: str, name: str, values: Iterable[Any]) -> None:
    """Refuse texts of which one is so long that an array of them takes gigabytes.

    In an array each takes as much as the longest: a file of a megabyte, with one cell
    of 100,000 characters and 100,000 of ten, would take 40 GB.
    """
    lengths = [len(one) for one in values if isinstance(one, str)]
    longest = max(lengths, default=0)
    if longest * len(lengths) > 16 * sum(lengths) + _MOST_PADDED:
        rule = "texts of similar lengths"
        got = f"one of {longest} characters among {len(lengths)}"
        fail(caller, name, rule, got, "Shorten it")


def joined_names(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate names of samples; as text where one kind of integer is too small.

    NumPy would make floats of integers of 64 bits with and without a sign, and round.
    """
    if np.result_type(*parts).kind == "f":
        parts = [part.astype(np.str_) for part in parts]
    return np.concatenate(parts)


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
    """Make a new array read-only; no other reference to it may exist."""
    array.flags.writeable = False
    return array


def restore(value: object, state: Mapping[str, Any]) -> None:
    """Set the fields of an unpickled or copied value, with read-only arrays."""
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
    """Whether the memory can be written to through this array or a base of it."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view; the caller's own array stays writeable."""
    view = array.view()
    view.flags.writeable = False
    return view


def both_sides(caller: str, n_known: int, n_unknown: int) -> None:
    """Raise if there are no known or no unknown samples: the metric is undefined."""
    for side, n in (("known", n_known), ("unknown", n_unknown)):
        if n == 0:
            msg = (
                f"{caller}: undefined without {side} samples, got {n_known} known and "
                f"{n_unknown} unknown (label {UNKNOWN}). Add {side} samples, or use a "
                f"metric that needs only {'unknown' if side == 'known' else 'known'} "
                "samples"
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
        msg = must(rule, caller=caller, name="negatives", got=f"{path} beside {data}")
        raise ValueError(msg)
