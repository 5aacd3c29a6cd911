"""Look up names given by users: built in, registered, or installed.

Something from outside the package can be named in three ways, wherever a name is taken:

- by its name, once it is registered in this process (see each package's `register`);
- by its name, if an installed package offers it as an entry point;
- as ``package.module:Name``, which is imported.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property
from importlib import metadata
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

from openset import _check
from openset._types import ArtefactError

T = TypeVar("T")
_is_reading_a_file = ContextVar("_is_reading_a_file", default=False)


@contextmanager
def reading_a_file() -> Iterator[None]:
    """Forbid ``package.module:Name`` in this context: names come from a file."""
    token = _is_reading_a_file.set(True)
    try:
        yield
    finally:
        _is_reading_a_file.reset(token)


class Registry(Generic[T]):
    """Values by their names, in order of registration.

    Parameters
    ----------
    group
        The entry-point group through which installed packages offer more.
    what
        What a value is, for error messages: "a detector".
    accept
        Converts an imported object to a value, or raises TypeError.
    """

    def __init__(
        self, group: str, what: str, accept: Callable[[str, Any], T], *, package: str
    ) -> None:
        self.group = group
        self._what, self._accept, self._package = what, accept, package
        self._values: dict[str, T] = {}
        self._unlisted: set[str] = set()

    def register(self, name: str, value: T, *, listed: bool = True) -> None:
        """Make `value` known under `name` in this process.

        The same object may be registered again (if a module is reloaded), and an object
        first defined in a notebook may move to a module; any other value under a used
        name raises an error. A value that is not `listed` can be found by name, but is
        not among `names`.
        """
        caller = f"{self._package}.register"
        # Dots are allowed for numbers: ccr_at_fpr_0.1.
        if not re.fullmatch(r"[a-z0-9_.-]*[a-z0-9][a-z0-9_.-]*", str(name)):
            rule = "lower-case letters, digits, hyphens, underscores and dots"
            _check.fail(caller, "name", rule, repr(name))
        taken = reference(self._values.get(name, value))
        if taken != reference(value) and not taken.startswith("__main__:"):
            rule, got = "a name that is not taken", f"{name!r}, which is {taken}"
            remedy = f"A class may have a line such as name = 'my_{name}'"
            _check.fail(caller, "name", rule, got, remedy)
        self._values[name] = value
        if not listed:
            self._unlisted.add(name)

    def built_in(self) -> list[str]:
        """Return the names of those that come with openset."""
        return [name for name in self._listed() if is_built_in(self._values[name])]

    def names(self) -> list[str]:
        """Return all names: built in, registered, and offered by installed packages."""
        return list(dict.fromkeys([*self._listed(), *self._offered]))

    def _listed(self) -> list[str]:
        return [name for name in self._values if name not in self._unlisted]

    def __getitem__(self, name: str) -> T:
        if name not in self._values:
            offered = self._offered[name]
            try:
                self._values[name] = self._accept(self._package, offered.load())
            except Exception as error:
                msg = f"{self._package}: {offered} could not be loaded ({error!r})"
                raise ImportError(msg) from error
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values or name in self._offered

    def find(self, name: Any, *, caller: str, argument: str = "name") -> T:
        """Return the value of a name, or of ``package.module:Name``."""
        if isinstance(name, str) and ":" in name:
            if _is_reading_a_file.get():
                rule = "a name alone, as files must not make openset import code"
                _check.fail(caller, argument, rule, repr(name), error=ArtefactError)
            return self._accept(caller, imported(name, caller=caller))
        if name not in self:
            remedy = f"Name {self._what} of your own as 'package.module:Name'"
            _check.one_of(caller, argument, name, self.names(), remedy=remedy)
        return self[name]

    def trusted(
        self, name: str, written: str | None, *, caller: str, plugins: Sequence[str]
    ) -> T:
        """Return a value named in a file, without importing code because of the file.

        Only what is built in, registered, offered by an installed entry point or named
        in `plugins` is taken. `written` is the ``module:Name`` the file was made with.
        All plugins are imported: one list may serve a rejector and its network.
        """
        for text, value in [(one, imported(one, caller=caller)) for one in plugins]:
            if written in (reference(value), text):
                return self._accept(caller, value)
        instead = ""
        if name in self:
            found = self[name]
            if is_built_in(found) or reference(found) == written:
                return found
            instead = f"; {name!r} is {reference(found)} here"
        remedy = f"Install or import its package, or name it: plugins=[{written!r}]"
        rule = f"{self._what} that is registered here"
        got = f"{name!r}, saved as {written}{instead}"
        name = "what the file needs"
        return _check.fail(caller, name, rule, got, remedy, ArtefactError)

    @cached_property  # reads all installed packages
    def _offered(self) -> dict[str, metadata.EntryPoint]:
        return {one.name: one for one in metadata.entry_points(group=self.group)}


def imported(text: str, *, caller: str, name: str = "name") -> Any:
    """Import ``package.module:Name``; `caller` and `name` are for errors.

    Examples
    --------
    >>> imported("collections.abc:Mapping", caller="example")
    <class 'collections.abc.Mapping'>
    """
    if not all(text.partition(":")):
        _check.fail(caller, name, "'package.module:Name'", repr(text))
    try:
        return resolve_name(text)
    except (ImportError, AttributeError) as error:
        msg = f"{caller}: {text!r} could not be imported ({error})"
        raise ImportError(msg) from error


def reference(value: Any) -> str:
    """Return ``module:Name``, by which a class or function can be imported.

    Examples
    --------
    >>> reference(Registry)
    'openset._plugins:Registry'
    """
    named = getattr(value, "function", value)  # a metric is identified by its function
    named = named if hasattr(named, "__qualname__") else type(named)
    return f"{named.__module__}:{named.__qualname__}"


def is_built_in(value: Any) -> bool:
    """Whether something is part of openset."""
    return reference(value).startswith("openset.")


def distribution(value: Any) -> str | None:
    """Return name and version of the installed package that has a value, if any."""
    try:
        found = metadata.metadata(reference(value).partition(":")[0].partition(".")[0])
    except metadata.PackageNotFoundError:
        return None
    return f"{found['Name']} {found['Version']}"


def need_importable(value: Any, *, caller: str) -> str:
    """Return ``module:Name``; raise if another process could not import it."""
    text = reference(value)
    with suppress(ImportError, ValueError):  # defined inside a function, or removed
        if reference(imported(text, caller=caller)) == text and "__main__" not in text:
            return text
    msg = (
        f"{caller}: {text} could not be loaded again: it is defined in a script, a "
        "notebook or a function. Move it to a module that can be imported"
    )
    raise ValueError(msg)


@contextmanager
def searching(*folders: str | Path) -> Iterator[None]:
    """Temporarily search these folders for modules too, after all others."""
    before = list(sys.path)
    sys.path += [str(one) for one in folders if str(one) not in before]
    try:
        yield
    finally:
        sys.path[:] = before


def subclass_of(kind: type[Any], what: str) -> Callable[[str, Any], Any]:
    """Return a function that checks that an object is a subclass of `kind`."""

    def accept(caller: str, value: Any) -> Any:
        if not (isinstance(value, type) and issubclass(value, kind)):
            got = getattr(value, "__name__", type(value).__name__)
            rule = f"{what} (a subclass of {kind.__name__})"
            _check.fail(caller, "what is named", rule, got, error=TypeError)
        return value

    return accept
