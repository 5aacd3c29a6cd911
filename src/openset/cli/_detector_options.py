"""Options about detectors, and how those given on the command line are read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from openset import _check, detectors
from openset.cli._errors_in_options import naming
from openset.detectors import Detector

Train: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="Outputs of the training split, to fit the detectors on. Not needed "
        "for detectors that need no fitting (msp, maxlogit, energy, gen)."
    ),
]
Plugins: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="NAME",
        help="Let a saved file use this detector or training method of your own, "
        "named package.module:Class. May be repeated. Not needed for those that an "
        "installed package registers.",
    ),
]


def recipe(text: str) -> Detector:
    """Parse ``name`` or ``package.module:Class``, and options: ``:name=value,...``."""
    name, _, rest = text.partition(":")
    word, _, more = rest.partition(":")
    if word and "=" not in word and name not in detectors.names():
        name, rest = f"{name}:{word}", more
    params: dict[str, object] = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            msg = _check.must(
                "name:option=value", caller="openset", name="--detector", got=text
            )
            raise ValueError(msg)
        params[key.strip()] = _value(value.strip())
    detectors.find(name, caller="openset", argument="--detector")
    options = {key: f"{key} of --detector {text}" for key in params}
    try:
        with naming("openset", options):
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


def need_training(
    recipes: Mapping[str, Detector], train: object, *, caller: str
) -> None:
    """Raise if a detector learns something and there are no training outputs."""
    learning = [text for text, one in recipes.items() if one.learns]
    if train is None and learning:
        msg = (
            f"{caller}: --train must be given for {', '.join(learning)}, got "
            "none. Give the outputs of the training split, or use a detector "
            "that needs no fitting: msp, maxlogit, energy, gen"
        )
        raise typer.BadParameter(msg)


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
