"""Allowed values of a detector's parameters, as data.

A detector lists them, and the base class checks them::

    class Margin(Detector):
        constraints = {"k": Integer(low=1), "mode": OneOf(("max", "mean"))}

        k: int = 1
        mode: str = "max"

As data, the rules can be tested and shown for every detector alike.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, nan
from typing import Any

from openset import _check


@dataclass(frozen=True)
class Constraint(ABC):
    """One rule for one parameter."""

    @abstractmethod
    def check(self, caller: str, name: str, value: Any) -> None:
        """Raise ValueError or TypeError unless the value is allowed."""

    @abstractmethod
    def bad(self) -> tuple[Any, ...]:
        """Return some values that are not allowed, for tests."""

    def read(self, value: Any) -> Any:
        """Return a value of a command line or a file as this rule writes it.

        There, "none" and null (None) mean the same: the one that is allowed is used.
        """
        return value


@dataclass(frozen=True)
class Number(Constraint):
    """A number in an interval, with open or closed ends; infinite ends are open."""

    low: float = -inf
    high: float = inf
    open_low: bool = False
    open_high: bool = False

    def check(self, caller: str, name: str, value: Any) -> None:
        """Raise ValueError for anything else."""
        _check.number(
            caller,
            name,
            value,
            low=self.low,
            high=self.high,
            open_low=self.open_low or self.low == -inf,
            open_high=self.open_high or self.high == inf,
        )

    def bad(self) -> tuple[Any, ...]:
        """Return numbers outside, and what is no number."""
        ends = ((self.low, -1.0, self.open_low), (self.high, 1.0, self.open_high))
        beyond = [
            end if is_open or abs(end) == inf else end + step
            for end, step, is_open in ends
        ]
        return (*beyond, nan, "1", True, None)


@dataclass(frozen=True)
class Integer(Constraint):
    """An integer of at least `low`."""

    low: int = 0

    def check(self, caller: str, name: str, value: Any) -> None:
        """Raise ValueError for anything else."""
        _check.integer(caller, name, value, low=self.low)

    def bad(self) -> tuple[Any, ...]:
        """Return smaller ones, and what is no integer."""
        return (self.low - 1, self.low + 0.5, "1", True, None)


@dataclass(frozen=True)
class CountOrShare(Constraint):
    """An integer of at least 2, or a share in (0, 1]: 1 and 1.0 both mean all."""

    def check(self, caller: str, name: str, value: Any) -> None:
        """Raise ValueError for anything else."""
        if isinstance(value, float):
            _check.number(caller, name, value, low=0, high=1, open_low=True)
        else:
            _check.positive_int(caller, name, value)

    @staticmethod
    def size(value: float, n: int) -> int:
        """Return the number of samples, of `n`, that a value stands for.

        Examples
        --------
        >>> [CountOrShare.size(value, 200) for value in (0.1, 1, 1.0, 50)]
        [20, 200, 200, 50]
        """
        return max(1, round(value * n)) if value <= 1 else int(value)

    def bad(self) -> tuple[Any, ...]:
        """Return what is neither."""
        return (0, 0.0, 1.5, "1", True)


@dataclass(frozen=True)
class OneOf(Constraint):
    """One of several words."""

    options: tuple[str, ...]

    def check(self, caller: str, name: str, value: Any) -> None:
        """Raise ValueError for any other."""
        _check.one_of(caller, name, value, self.options)

    def bad(self) -> tuple[Any, ...]:
        """Return what is none of them."""
        return ("nothing of the kind", 1, None)

    def read(self, value: Any) -> Any:
        """Return the word "none" for None, if it is one of the words.

        Examples
        --------
        >>> OneOf(("l2", "none")).read(None), OneOf(("l2", "l1")).read(None)
        ('none', None)
        """
        return "none" if value is None and "none" in self.options else value


@dataclass(frozen=True)
class Boolean(Constraint):
    """True or False, not a value that only converts to one."""

    def check(self, caller: str, name: str, value: Any) -> None:
        """Raise TypeError for anything else."""
        _check.boolean(caller, name, value)

    def bad(self) -> tuple[Any, ...]:
        """Return what only looks like one."""
        return ("no", 0, None)


@dataclass(frozen=True)
class Text(Constraint):
    """A string."""

    def check(self, caller: str, name: str, value: Any) -> None:
        """Raise TypeError for anything else."""
        if not isinstance(value, str):
            rule, got = "a string", repr(value)
            raise TypeError(_check.must(rule, caller=caller, name=name, got=got))

    def bad(self) -> tuple[Any, ...]:
        """Return what is none."""
        return (1, None)


@dataclass(frozen=True)
class Optional(Constraint):
    """None, or what another rule allows."""

    rule: Constraint

    def check(self, caller: str, name: str, value: Any) -> None:
        """Raise for values that the other rule does not allow."""
        if value is not None:
            self.rule.check(caller, name, value)

    def bad(self) -> tuple[Any, ...]:
        """Return those of the other rule, but None."""
        return tuple(value for value in self.rule.bad() if value is not None)

    def read(self, value: Any) -> Any:
        """Return None for the word "none".

        Examples
        --------
        >>> Optional(Integer(low=1)).read("none"), Optional(Integer(low=1)).read(3)
        (None, 3)
        """
        return None if value == "none" else self.rule.read(value)


POSITIVE = Number(low=0, open_low=True)
"""A finite number above 0."""
