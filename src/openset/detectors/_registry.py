"""Detectors by name: built in, registered by subclassing, or installed."""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openset import _plugins
from openset._types import ArtefactError

if TYPE_CHECKING:
    from openset.detectors._detector import Detector


def _accept(caller: str, value: Any) -> "type[Detector]":
    from openset.detectors._detector import Detector  # noqa: PLC0415  # it imports us

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


def remade(
    name: str,
    params: Mapping[str, Any],
    classes: Sequence[Mapping[str, Any]],
    *,
    caller: str,
    path: Path | str,
    plugins: Sequence[str],
) -> "Detector":
    """Build the detector a file describes, from classes the caller trusts.

    `classes` are the origins the file was written with; files without them name
    detectors that come with openset.
    """
    written = {one["name"]: one["class"] for one in classes}
    trusted = {
        one: REGISTRY.trusted(one, written.get(one), caller=caller, plugins=plugins)
        for one in {name, *written}
    }
    try:
        with _plugins.reading_a_file():
            return trusted[name](**params)
    except (ValueError, TypeError) as error:
        msg = (
            f"{caller}: {path} holds a detector this version of openset cannot make "
            f"({error})"
        )
        raise ArtefactError(msg) from error
