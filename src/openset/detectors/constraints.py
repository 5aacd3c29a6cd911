"""Allowed values of a detector's parameters, as data.

A detector says them with each parameter, and the base class checks them::

    class Margin(Detector):
        k: int = option(1, Number(low=1, integer=True))
        mode: str = option("max", OneOf("max", "mean"))

As data, the rules can be tested and shown for every detector alike: the `constraints`
of a detector are its rules by parameter.
"""

from dataclasses import dataclass, field
from math import inf, nan
from typing import Any, TypeVar

from openset import _check

T = TypeVar("T")


@dataclass(frozen=True)
class Number:
    """A number in an interval, with open or closed ends; infinite ends are open.

    With `integer`, a whole number of at least `low`; with `or_none`, None is allowed.
    """

    low: float = -inf
    high: float = inf
    open_low: bool = False
    open_high: bool = False
    integer: bool = False
    or_none: bool = False

    def check(self, caller: str, name: str, value: Any) -> None:
        """Raise ValueError for anything else."""
        if value is None and self.or_none:
            return
        if self.integer:
            _check.integer(caller, name, value, low=int(self.low))
            return
        ends: Any = {"low": self.low, "high": self.high}
        ends["open_low"] = self.open_low or self.low == -inf
        ends["open_high"] = self.open_high or self.high == inf
        _check.number(caller, name, value, **ends)

    def bad(self) -> tuple[Any, ...]:
        """Return some values that are not allowed, for tests."""
        none = () if self.or_none else (None,)
        inner = (self.low + 0.5,) if self.integer else (self.high + 1,)
        return (self.low - 1, *inner, inf, nan, "1", True, *none)

    def read(self, value: Any) -> Any:
        """Return None for the word "none" of a command line, if None is allowed."""
        return None if self.or_none and value == "none" else value


class OneOf:
    """One of several words; without words, True or False."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def check(self, caller: str, name: str, value: Any) -> None:
        """Raise ValueError or TypeError for anything else."""
        if self.words:
            _check.one_of(caller, name, value, self.words)
        else:
            _check.boolean(caller, name, value)

    def bad(self) -> tuple[Any, ...]:
        """Return some values that are not allowed, for tests."""
        return ("nothing of the kind", 1, None)

    def read(self, value: Any) -> Any:
        """Return the word "none" for None of a file, if it is one of the words."""
        return "none" if value is None and "none" in self.words else value


def option(default: T, rule: Number | OneOf) -> T:
    """Return the field of a parameter with this default and this rule."""
    return field(default=default, metadata={"rule": rule})


POSITIVE = Number(low=0, open_low=True)
"""A finite number above 0."""
COUNT = Number(low=1, integer=True)
SEED = Number(low=0, integer=True)
FLAG = OneOf()
PERCENT = Number(low=0, high=100, open_high=True)
