"""The training methods by name."""

from openset import _check
from openset.train.methods._base import Method
from openset.train.methods.openauc import AccAUC, OpenAUC
from openset.train.methods.softmax import CEPlus, Softmax

REGISTRY: dict[str, type[Method]] = {
    method.name: method for method in (Softmax, CEPlus, AccAUC, OpenAUC)
}


def names() -> tuple[str, ...]:
    """Return the names of all methods.

    Examples
    --------
    >>> "openauc" in names()
    True
    """
    return tuple(REGISTRY)


def find(name: str) -> type[Method]:
    """Return the method of this name."""
    return REGISTRY[_check.one_of("train.fit", "method", name, names())]
