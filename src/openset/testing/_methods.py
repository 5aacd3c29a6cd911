"""Checks of a training method of your own."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openset import _io
from openset.testing._run import run_checks

if TYPE_CHECKING:  # it needs torch, which this package does not
    from openset.train.methods import Method


def check_method(
    kind: "type[Method] | str",
    *,
    options: Mapping[str, Any] | None = None,
    images: bool = False,
    skip: Sequence[str] = (),
) -> list[str]:
    """Check that a training method keeps to what every training method promises.

    Its loss is computed for usual and unusual batches, in full and half precision; it
    is compiled, trained on a small problem, saved and loaded. Needs the extra `torch`.

    Parameters
    ----------
    kind
        The class, its name, or ``"package.module:Class"``.
    options
        Options to make it with.
    images
        Use images of 32 × 32 pixels in place of rows of numbers.
    skip
        Names of checks to leave out.

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
    """Return the checks of :func:`check_method` by name, each to be called alone.

    For ``pytest.mark.parametrize``: every check is then a test of its own.
    """
    name = "openset.testing._method_checks"
    library: Any = _io.optional("check_method", name, name="torch")
    return library.checks(kind, options or {}, images=images)
