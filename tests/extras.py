"""Packages that some tests of the core use: without one, those tests alone skip.

>>> make = found("surely_absent").asarray  # a table of parameters may name it
>>> make([1.0])
Traceback (most recent call last):
Skipped: needs surely_absent
"""

from importlib import import_module
from importlib.util import find_spec

import pytest


class Absent:
    """Stands for a package that is not installed: a test that calls it skips."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        if attribute.startswith("__"):  # pytest asks for some
            raise AttributeError(attribute)
        return self

    def __call__(self, *args, **kwargs):  # noqa: D102  # a magic method
        pytest.skip(f"needs {self._name}")


def found(name):
    """Import a package, if it is installed."""
    return Absent(name) if find_spec(name) is None else import_module(name)


array_api_strict = found("array_api_strict")
pandas = found("pandas")
torch = found("torch")
yaml = found("yaml")
