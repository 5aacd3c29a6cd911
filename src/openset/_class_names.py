"""Labels as text: names of classes become numbers, and one name means "unknown"."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset._types import UNKNOWN

UNKNOWN_NAME = "unknown"
"""The label of unknown samples where labels are strings."""


def is_text(values: Any) -> bool:
    """Whether these labels are strings."""
    array = np.asarray(values)
    return array.dtype.kind in "US" or (
        array.dtype.kind == "O" and any(isinstance(one, str) for one in array.flat)
    )


def numbered(
    caller: str,
    labels: Any,
    predicted: Any,
    unknown_label: str | int | None,
    class_names: Sequence[str] | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[str, ...]]:
    """Replace names by numbers: true classes, predicted classes, names in order.

    Without `class_names` the classes are those that occur, sorted.
    """
    unknown = UNKNOWN_NAME if unknown_label is None else str(unknown_label)
    texts = [_texts(caller, "labels", labels), _texts(caller, "predicted", predicted)]
    if class_names is None:
        class_names = [one for one in np.union1d(*texts).tolist() if one != unknown]
    true, found = (numbers_of(caller, one, class_names, unknown) for one in texts)
    return true, found, tuple(class_names)


def numbers_of(
    caller: str, labels: Any, classes: Sequence[str], unknown: str = ""
) -> NDArray[np.int64]:
    """Replace labels by their places among `classes`, and `unknown` by -1.

    By default it is "unknown", if no class is called so. Any other label raises an
    error: it may be a class that is spelt differently.

    Examples
    --------
    >>> numbers_of("Outputs", ["dog", "unknown", "cat"], ("cat", "dog"))
    array([ 1, -1,  0])
    """
    found, index = np.unique(_texts(caller, "labels", labels), return_inverse=True)
    place = {name: i for i, name in enumerate(classes)}
    place = {UNKNOWN_NAME: UNKNOWN} | place if not unknown else place | {unknown: -1}
    others = [name for name in found.tolist() if name not in place]
    if others:
        rule = f"integers, or names that are in classes, or {unknown or UNKNOWN_NAME!r}"
        remedy = (
            f"Label samples of no known class {unknown or UNKNOWN_NAME!r}"
            if classes
            else "Pass classes=, in the order of the columns of the logits"
        )
        _check.fail(caller, "labels", rule, repr(others[0]), remedy)
    return np.array([place[name] for name in found.tolist()], dtype=np.int64)[index]


def with_unknown(caller: str, labels: Any, predicted: Any, unknown_label: Any) -> Any:
    """Replace the number that labels unknown samples by -1."""
    _check.unmasked(caller, "labels", labels)
    numbers, unknown = np.asarray(labels), int(unknown_label)
    if numbers.dtype.kind not in "iu" or unknown == UNKNOWN:
        return labels
    if (numbers == UNKNOWN).any():
        rule = f"{UNKNOWN} where labels have it, as it always means unknown"
        _check.fail(caller, "unknown_label", rule, unknown)
    if (np.asarray(predicted) == unknown).any():
        rule = f"a known class for every sample, not {unknown}"
        _check.fail(caller, "predicted", rule, unknown)
    return np.where(numbers == unknown, UNKNOWN, numbers.astype(np.int64))


def merged(
    sets: Sequence[tuple[str, ...]],
) -> tuple[tuple[str, ...], list[NDArray[np.int64]]]:
    """Return all names, and for each set the new number of each old one.

    The label of unknown samples, -1, takes the last entry, which is -1 again.
    """
    names = list(dict.fromkeys(name for one in sets for name in one))
    place = {name: number for number, name in enumerate(names)}
    moved = [np.array([*(place[name] for name in one), UNKNOWN]) for one in sets]
    return tuple(names), moved


def need_names(caller: str, values: Sequence[str], highest: int) -> tuple[str, ...]:
    """Return names of classes as a tuple; raise unless there is one for each class."""
    names = () if isinstance(values, str) else tuple(values)
    are_strings = all(isinstance(one, str) for one in names)
    if not are_strings or len(set(names)) < max(len(names), highest + 1):
        rule = "different strings, one for each class"
        got = f"{len(set(names))} different ones and class {highest}"
        _check.fail(caller, "class_names", rule, got)
    return names


def _texts(caller: str, name: str, values: Any) -> NDArray[np.str_]:
    """Return labels as an array of text; raise unless all are strings."""
    found = _check.names(caller, name, values)
    if found.dtype.kind != "U":
        rule, got = "strings where other labels are strings", f"dtype {found.dtype}"
        _check.fail(caller, name, rule, got, error=TypeError)
    if (found == "").any():
        rule, got = "given for every sample", f"none in row {np.argmax(found == '')}"
        _check.fail(caller, name, rule, got, "Leave these samples out")
    return found
