"""Checks of a training method of your own."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openset import _extras
from openset.testing._run import run_checks

if TYPE_CHECKING:  # imports torch, which this package does not need
    from openset.train.methods import Method


def check_method(
    kind: "type[Method] | str",
    *,
    options: Mapping[str, Any] | None = None,
    images: bool = False,
    skip: Sequence[str] = (),
) -> list[str]:
    """Check that a training method has the properties every one must have.

    Its loss is computed for usual and unusual batches, in full and half precision; it
    is compiled, trained on a small problem, saved and loaded. Needs the extra `torch`.

    Parameters
    ----------
    kind
        The class, its name, or ``"package.module:Class"``.
    options
        Options of the method.
    images
        Use images of 32 × 32 pixels instead of vectors.
    skip
        Names of checks to skip.

    Returns
    -------
    list
        The names of the checks that passed.

    Raises
    ------
    AssertionError
        Lists every check that failed, with the reason.

    Examples
    --------
    >>> check_method("softmax")[:2]
    ['facts', 'loss']
    """
    checks = method_checks(kind, options=options, images=images)
    title = kind if isinstance(kind, str) else kind.__name__
    return run_checks("check_method", title, checks, skip=skip)


def method_checks(
    kind: "type[Method] | str",
    *,
    options: Mapping[str, Any] | None = None,
    images: bool = False,
) -> dict[str, Callable[[], None]]:
    """Return the checks of :func:`check_method` by name, to be called one by one.

    For ``pytest.mark.parametrize``, so that every check is a separate test.
    """
    name = "openset.testing._method_checks"
    library: Any = _extras.optional("check_method", name, name="torch")
    return library.checks(kind, options or {}, images=images)
