"""Classes of a data set: names, or numbers in the data set's own numbering."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from openset import _check

Class: TypeAlias = int | str
"""A class: its name, or its number in the data set's own numbering."""


def class_list(caller: str, name: str, values: Any) -> tuple[Class, ...]:
    """Return classes as a tuple of int and str; raise for duplicates."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        rule = "a list of class names or numbers"
        _check.fail(caller, name, rule, repr(values), error=TypeError)
    classes = tuple(_class(caller, name, value) for value in values)
    if len(set(classes)) != len(classes):
        twice = [c for c, n in Counter(classes).items() if n > 1]
        _check.fail(caller, name, "free of duplicates", f"{few(twice)} more than once")
    return classes


def _class(caller: str, name: str, value: Any) -> Class:
    if isinstance(value, str) and value:
        return str(value)  # numpy.str_ would not be plain JSON
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        rule = "class names or numbers"
        _check.fail(caller, name, rule, repr(value), error=TypeError)
    if value < 0:
        remedy = "-1 marks unknown samples; it is not a class"
        _check.fail(caller, name, "class numbers >= 0", value, remedy)
    return int(value)


def few(classes: Iterable[Class]) -> str:
    """Write the first five classes, and how many more there are."""
    listed = list(classes)
    shown = ", ".join(repr(c) for c in listed[:5])
    return shown + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")
