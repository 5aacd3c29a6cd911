"""Detectors by name: built in, registered by subclassing, or installed."""

import inspect
from typing import TYPE_CHECKING, Any

from openset import _plugins

if TYPE_CHECKING:
    from openset.detectors._base import Detector


def _accept(caller: str, value: Any) -> "type[Detector]":
    from openset.detectors._base import Detector  # noqa: PLC0415  # it imports us

    return _plugins.subclass_of(Detector, "a detector")(caller, value)


REGISTRY: _plugins.Registry["type[Detector]"] = _plugins.Registry(
    "openset.detectors", "a detector", _accept, package="detectors"
)


def names() -> list[str]:
    """Return the names of all detectors."""
    return REGISTRY.names()


def find(
    name: str, *, caller: str = "detectors.find", argument: str = "name"
) -> "type[Detector]":
    """Return the class of a name, or of ``package.module:Class``.

    Examples
    --------
    >>> find("postmax") is find("openset.detectors:PostMax")
    True
    """
    return REGISTRY.find(name, caller=caller, argument=argument)


def options(name: str) -> list[str]:
    """Return the names of a detector's parameters.

    Examples
    --------
    >>> options("postmax")
    ['norm', 'fit', 'only_correct']
    """
    return list(inspect.signature(find(name, caller="detectors.options")).parameters)


def make(name: str, **params: Any) -> "Detector":
    """Build a detector from its name, or from ``package.module:Class``.

    As options come from command lines and files, too, None and "none" mean the same:
    the one that the option allows is used.

    Examples
    --------
    >>> make("knn", k=5).k
    5
    >>> make("postmax", norm=None).norm, make("knn", bank="none").bank
    ('none', None)
    """
    kind = find(name, caller="detectors.make")
    rules = kind.constraints
    return kind(
        **{key: rules[key].read(v) if key in rules else v for key, v in params.items()}
    )
