"""Labels of others: which one means "unknown", and numbers for names of classes."""

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN

UNKNOWN_NAME = "unknown"
"""The label of unknown samples where labels are strings."""

_LIKE_UNKNOWN = frozenset(
    {"-1", "unknown", "unk", "oos", "ood", "outofscope", "other", "others"}
)


def is_text(values: Any) -> bool:
    """Whether these labels are strings."""
    array = np.asarray(values)
    return array.dtype.kind in "US" or (
        array.dtype.kind == "O" and any(isinstance(one, str) for one in array.flat)
    )


def means_unknown(name: object) -> bool:
    """Whether a label reads like a name for unknown samples.

    Examples
    --------
    >>> list(filter(means_unknown, ["cat", "Out-of-scope", "OOS", "another"]))
    ['Out-of-scope', 'OOS']
    """
    plain = str(name).casefold()
    return plain in _LIKE_UNKNOWN or "".join(filter(str.isalnum, plain)) in (
        _LIKE_UNKNOWN
    )


def need_no_doubt(caller: str, labels: Iterable[Any], unknown: Any) -> None:
    """Raise if another label than the default `unknown` may mean unknown."""
    doubtful = sorted({str(one) for one in labels if means_unknown(one)})
    doubtful = [one for one in doubtful if one != str(unknown)]
    if doubtful:
        _check.fail(
            caller,
            "unknown_label",
            "given, as a class has a name that may mean unknown",
            f"None with the label {doubtful[0]!r}",
            f"Pass unknown_label={doubtful[0]!r} if these samples belong to no "
            f"known class, else unknown_label={unknown!r}",
        )


def numbered(
    caller: str,
    labels: Any,
    predicted: Any,
    *,
    unknown_label: str | int | None,
    class_names: Sequence[str] | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[str, ...]]:
    """Replace names by numbers: true classes, predicted classes, names in order."""
    true = _strings(caller, "labels", labels)
    found = _strings(caller, "predicted", predicted)
    unknown = UNKNOWN_NAME if unknown_label is None else str(unknown_label)
    occurring = sorted({*np.unique(true).tolist(), *np.unique(found).tolist()})
    _need_different(caller, occurring)
    if unknown_label is None:
        need_no_doubt(caller, occurring, unknown)
    _need_known_classes(caller, found, unknown)
    names = [name for name in occurring if name != unknown]
    if class_names is not None:
        missing = [name for name in names if name not in set(class_names)]
        if missing:
            _check.fail(
                caller,
                "class_names",
                "all names that occur",
                f"none for {missing[0]!r}",
                f"Unknown samples are labelled {unknown!r}",
            )
        names = list(class_names)
    order = np.argsort(names)
    ranked = np.asarray(names, dtype=np.str_)[order]
    # clip: the unknown name may sort behind all others
    number = order.take(np.searchsorted(ranked, true), mode="clip")
    true_number = np.where(true == unknown, UNKNOWN, number)
    return true_number, order[np.searchsorted(ranked, found)], tuple(names)


def numbers_of(caller: str, labels: Any, classes: Sequence[str]) -> NDArray[np.int64]:
    """Replace labels by their places among `classes`, and "unknown" by -1.

    Any other label raises an error: it may be a class that is spelt differently.

    Examples
    --------
    >>> numbers_of("Outputs", ["dog", "unknown", "cat"], ("cat", "dog"))
    array([ 1, -1,  0])
    """
    names = _strings(caller, "labels", labels)
    place = {name: number for number, name in enumerate(classes)}
    place.setdefault(UNKNOWN_NAME, UNKNOWN)
    found, index = np.unique(names, return_inverse=True)
    others = [name for name in found.tolist() if name not in place]
    if not classes or others:
        _check.fail(
            caller,
            "labels",
            f"integers, or names that are in classes, or {UNKNOWN_NAME!r}",
            repr(others[0] if others else str(found[0])),
            f"Label samples of no known class {UNKNOWN_NAME!r}"
            if classes
            else "Pass classes=, in the order of the columns of the logits",
        )
    return np.array([place[name] for name in found.tolist()], dtype=np.int64)[index]


def with_unknown(
    caller: str, labels: Any, predicted: Any, *, unknown_label: str | int
) -> NDArray[np.int64]:
    """Replace the number that labels unknown samples by -1."""
    unknown = _integer(caller, unknown_label)
    if unknown == UNKNOWN:
        return labels
    numbers = _check.labels(
        caller, "labels", labels, lowest=int(np.iinfo(np.int64).min)
    )
    if (numbers == UNKNOWN).any():
        _check.fail(
            caller,
            "unknown_label",
            f"{UNKNOWN} where labels have it, as it always means unknown",
            unknown,
        )
    _need_known_classes(caller, np.asarray(predicted), unknown)
    return np.where(numbers == unknown, UNKNOWN, numbers)


def _integer(caller: str, unknown_label: str | int) -> int:
    if isinstance(unknown_label, str):
        try:
            return int(unknown_label)
        except ValueError:
            pass
    elif isinstance(unknown_label, Integral) and not isinstance(unknown_label, bool):
        return int(unknown_label)
    rule = "an integer where labels are numbers"
    return _check.fail(caller, "unknown_label", rule, repr(unknown_label))


def _need_known_classes(
    caller: str, predicted: NDArray[Any], unknown: str | int
) -> None:
    if (predicted == unknown).any():
        _check.fail(
            caller,
            "predicted",
            "a known class for every sample",
            f"{unknown!r}",
            "It is the class without rejection; rejection is decided by a "
            "threshold on the knownness",
        )


def merged(
    sets: Sequence[tuple[str, ...]],
) -> tuple[tuple[str, ...], list[NDArray[np.int64]]]:
    """Return all names, and for each set the new number of each old one."""
    names = list(dict.fromkeys(name for one in sets for name in one))
    place = {name: number for number, name in enumerate(names)}
    moved = [np.array([place[name] for name in one], dtype=np.int64) for one in sets]
    return tuple(names), moved


def need_names(caller: str, values: Sequence[str], highest: int) -> tuple[str, ...]:
    """Return names of classes as a tuple; raise unless there is one for each class."""
    names = tuple(values)
    rule = "different strings, one for each class"
    bad = [name for name in names if not isinstance(name, str)]
    if isinstance(values, str) or bad or len(set(names)) < len(names):
        _check.fail(caller, "class_names", rule, repr(values))
    if highest >= len(names):
        got = f"{len(names)} names and class {highest}"
        _check.fail(caller, "class_names", rule, got)
    return names


def _strings(caller: str, name: str, values: Any) -> NDArray[np.str_]:
    # as objects: NumPy would make strings of numbers in a list
    array = np.asarray(values, None if isinstance(values, np.ndarray) else object)
    others = (
        []
        if array.dtype.kind == "U"
        else [one for one in array.flat if not isinstance(one, str)]
    )
    if others:
        _check.fail(
            caller,
            name,
            "strings where other labels are strings",
            repr(others[0]),
            error=TypeError,
        )
    _check.vector(caller, name, array)
    found = array.astype(np.str_)
    empty = np.flatnonzero(found == "")
    if empty.size:
        got = f"none in {empty.size} of {found.size} samples, first in row {empty[0]}"
        _check.fail(
            caller,
            name,
            "given for every sample",
            got,
            "Remove samples without a label",
        )
    return found


def _need_different(caller: str, names: Sequence[str]) -> None:
    """Raise if two names differ in white space around them alone."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.strip(), name)
        if other != name:
            _check.fail(
                caller,
                "labels and predicted",
                "names that differ in more than spaces around them",
                f"{other!r} and {name!r}",
                "Strip the names",
            )
