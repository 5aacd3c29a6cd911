"""What opening a network by its name needs, whichever library it is of."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from openset import _io
from openset._types import MissingExtraError
from openset.integrations._embedding import LinearHead

CALLER = "networks.load"


@dataclass(frozen=True, eq=False)
class Options:
    """What `networks.load` was given beside the source."""

    weights: str | Path | None
    classes: tuple[str, ...]
    prompts: tuple[str, ...]
    head: str | Path | LinearHead | None
    pooling: str | None


def library(name: str) -> Any:
    """Import a library; raise with the remedy if it is missing or does not fit."""
    top = name.partition(".")[0]
    try:
        with _io.fitting(CALLER, top):
            return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or top
        msg = f"{CALLER}: needs {missing}; install it with: pip install {missing}"
        raise MissingExtraError(msg) from error
