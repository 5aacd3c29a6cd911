"""Imports of optional packages: errors name what to install."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from openset._types import MissingExtraError


def optional(caller: str, module: str, *, name: str) -> ModuleType:
    """Import an optional dependency; if it is missing, name the extra to install."""
    try:
        return import_module(module)
    except ImportError as error:
        # A module of ours is there: a package it imports is missing.
        is_ours = module.startswith("openset.")
        missing = error.name if is_ours and error.name else module
        msg = (
            f'{caller}: needs {missing}; install it with: pip install "openset[{name}]"'
        )
        raise MissingExtraError(msg) from error


# A package compiled for another version of a dependency can fail in many ways.
BROKEN_IMPORT = (ImportError, OSError, RuntimeError, AttributeError)


def first_line(error: BaseException) -> str:
    r"""Return the type of an error and the first line of its message.

    Examples
    --------
    >>> first_line(RuntimeError("operator does not exist\nand much more"))
    'RuntimeError: operator does not exist'
    """
    first, _, _ = str(error).strip().partition("\n")
    return f"{type(error).__name__}: {first}"


@contextmanager
def importing(caller: str, name: str) -> Iterator[None]:
    """Guard the imports of a module that needs an extra: errors name the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None:  # transformers: something below it does not import
            cause: BaseException = error
            while cause.__cause__ is not None:
                cause = cause.__cause__
            why = first_line(cause)
            msg = f"{caller}: {name} is installed but does not import ({why})"
        else:
            msg = (
                f"{caller}: needs {error.name}; install it with: "
                f'pip install "openset[{name}]"'
            )
        raise MissingExtraError(msg, name=error.name) from error


@contextmanager
def fitting(caller: str, package: str, *, remedy: str = "") -> Iterator[None]:
    """Guard an import that needs torchvision: explain if it does not fit torch.

    torchvision is compiled for one version of torch, with or without GPU support; with
    another torch its import fails. `remedy` is added to the advice.
    """
    try:
        yield
    except ModuleNotFoundError:
        raise
    except BROKEN_IMPORT as error:
        version = sys.modules["torch"].__version__
        # Both must come from the same index: a GPU build does not fit a CPU build.
        _, _, build = version.partition("+")
        place = f" --index-url https://download.pytorch.org/whl/{build}"
        msg = (
            f"{caller}: {package} is installed but does not import "
            f"({first_line(error)}). Install the torchvision that fits this torch: "
            f"pip uninstall torchvision, then pip install torch=={version} torchvision"
            f"{place if build else ''}{remedy}"
        )
        raise MissingExtraError(msg) from error


def library(caller: str, name: str) -> ModuleType:
    """Import a package that no extra of ours brings, such as timm, or a part of it."""
    top = name.partition(".")[0]
    try:
        with fitting(caller, top):
            return import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or top
        msg = f"{caller}: needs {missing}; install it with: pip install {missing}"
        raise MissingExtraError(msg) from error
