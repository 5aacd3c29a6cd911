"""Detectors as they are written on the command line."""

from openset import _check, detectors
from openset.detectors import Detector


def recipe(text: str) -> Detector:
    """Read ``name`` or ``name:option=value,option=value``."""
    name, _, rest = text.partition(":")
    params: dict[str, object] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            msg = _check.must(
                "name:option=value", caller="openset", name="--detector", got=text
            )
            raise ValueError(msg)
        params[key.strip()] = _value(value.strip())
    try:
        return detectors.make(name, **params)
    except TypeError as error:
        taken = detectors.options(name)
        if set(params) <= set(taken):
            raise
        msg = (
            f"openset: {name} does not take these options: {rest}. It takes "
            f"{', '.join(taken) or 'none'}"
        )
        raise ValueError(msg) from error


def _value(text: str) -> object:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
