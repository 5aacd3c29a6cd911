"""Errors of the library, told in the words of a command."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_SAID = (ValueError, TypeError, FileNotFoundError, ConnectionError, ImportError)


@contextmanager
def naming(command: str, options: Mapping[str, str] | None = None) -> Iterator[None]:
    """Let errors name the command and its options, not functions and arguments.

    Our errors read ``caller: name must be rule, got value``. The caller becomes the
    command, and a name that `options` holds becomes the option it comes from.

    Examples
    --------
    >>> with naming("openset draw", {"n_known": "--known"}):
    ...     raise ValueError("holdout: n_known must be >= 1, got 0")
    Traceback (most recent call last):
    ...
    ValueError: openset draw: --known must be >= 1, got 0
    """
    try:
        yield
    except _SAID as error:
        caller, colon, rest = str(error).partition(": ")
        is_ours = bool(colon) and " " not in caller
        if not is_ours:
            raise
        name, must, rule = rest.partition(" must ")
        if must:
            words = [(options or {}).get(word, word) for word in name.split(" ")]
            rest = " ".join(words) + must + rule
        msg = f"{command}: {rest}"
        raise type(error)(msg) from error
