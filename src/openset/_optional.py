"""Optional packages: an error names the extra that brings the missing one."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

from openset._types import MissingExtraError


@contextmanager
def needs(extra: str = "") -> Iterator[None]:
    """Guard imports: if a package is missing, the error says how to install it.

    Without `extra` the package itself is named: none of our extras brings it.

    Examples
    --------
    >>> with needs("cluster"):
    ...     import no_such_package
    Traceback (most recent call last):
    ...
    openset._types.MissingExtraError: needs no_such_package; install it with: pip \
install "openset[cluster]"
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None:  # it is installed: it says itself what it lacks
            raise
        package = f'"openset[{extra}]"' if extra else error.name.partition(".")[0]
        msg = f"needs {error.name}; install it with: pip install {package}"
        raise MissingExtraError(msg, name=error.name) from error


def optional(module: str, extra: str = "") -> ModuleType:
    """Import an optional package when it is used, for functions that need it.

    Examples
    --------
    >>> optional("json").dumps([1])
    '[1]'
    """
    with needs(extra):
        return import_module(module)
