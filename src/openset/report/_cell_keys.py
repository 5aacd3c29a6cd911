"""What the key of a cell says: the name of its method, and varied parameters."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

_OF_A_RUN = (
    "protocol",
    "repeat",
    "split",
    "seed",
)  # these distinguish repeats, not methods
OF_A_METHOD = ("model", "method", "detector")
_TITLE = re.compile(r"([^()]+)\(([^()]*=[^()]*)\)")


def method_names(keys: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name each cell's method by what differs between methods, briefly."""
    varied = [
        name for name in OF_A_METHOD if len({key.get(name, "") for key in keys}) > 1
    ] or ["detector"]
    others = sorted({name for key in keys for name in key} - {*_OF_A_RUN, *OF_A_METHOD})
    extra = [name for name in others if _is_setting([key.get(name) for key in keys])]
    names = []
    for key in keys:
        parts = [str(key[name]) for name in varied if key.get(name)]
        parts += [setting(name, key[name]) for name in extra if name in key]
        names.append(" · ".join(parts) or "–")
    return names


def _is_setting(values: Sequence[Any]) -> bool:
    """Whether the values differ, and are not all text."""
    is_varied = len({json.dumps(one, sort_keys=True) for one in values}) > 1
    return is_varied and any(not isinstance(one, str | None) for one in values)


def setting(name: str, value: Any) -> str:
    """Write a setting as ``name=value``; of a mapping, all in it."""
    if isinstance(value, Mapping):
        return ", ".join(setting(k, v) for k, v in sorted(value.items()))
    return f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"


def numbers_of(key: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers in a key: parameters that were varied."""
    found: dict[str, float] = {}
    for name, value in key.items():
        if name in _OF_A_RUN:
            continue
        if name in OF_A_METHOD:
            base, settings = parsed(str(value))
            found |= {f"{each} of {base}": at for each, at in settings.items()}
        elif isinstance(value, Mapping):
            found |= numbers_of(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = float(value)
    return found


def parsed(title: str) -> tuple[str, dict[str, float]]:
    """Parse a title of a study: ``knn(k=5)`` is ``knn`` with k = 5.

    Examples
    --------
    >>> parsed("knn(k=5, metric=cosine)"), parsed("msp")
    (('knn', {'k': 5.0}), ('msp', {}))
    """
    match = _TITLE.fullmatch(title)
    if match is None:
        return title, {}
    settings = {}
    for pair in match[2].split(", "):
        name, _, value = pair.partition("=")
        with suppress(ValueError):  # a setting that is not a number
            settings[name] = float(value)
    return match[1], settings
