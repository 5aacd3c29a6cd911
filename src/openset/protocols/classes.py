"""Classes of a data set: names, or numbers in the data set's own numbering."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from openset import _check

Class: TypeAlias = int | str
"""A class: its name, or its number in the data set's own numbering."""


def class_list(caller: str, name: str, values: Any) -> tuple[Class, ...]:
    """Return classes as a tuple of int and str; raise for duplicates."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        msg = _check.must(
            "a list of class names or numbers",
            caller=caller,
            name=name,
            got=repr(values),
        )
        raise TypeError(msg)
    classes = tuple(_class(caller, name, value) for value in values)
    if len(set(classes)) != len(classes):
        seen: set[Class] = set()
        twice = [c for c in classes if c in seen or seen.add(c)]  # type: ignore[func-returns-value]
        got = f"{few(twice)} more than once"
        raise ValueError(
            _check.must("free of duplicates", caller=caller, name=name, got=got)
        )
    return classes


def _class(caller: str, name: str, value: Any) -> Class:
    if isinstance(value, str) and value:
        return str(value)  # numpy.str_ would not be plain JSON
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if value >= 0:
            return int(value)
        remedy = "-1 marks unknown samples; it is not a class"
        msg = _check.must(
            "class numbers >= 0", caller=caller, name=name, got=value, remedy=remedy
        )
        raise ValueError(msg)
    got = repr(value)
    raise TypeError(
        _check.must("class names or numbers", caller=caller, name=name, got=got)
    )


def few(classes: Iterable[Class]) -> str:
    """Write the first five classes, and how many more there are."""
    listed = list(classes)
    shown = ", ".join(repr(c) for c in listed[:5])
    return shown + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")
