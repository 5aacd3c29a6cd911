"""Errors of requests: an HTTP status code and a message for the client."""

from typing import NoReturn

from openset import _check


class RequestError(ValueError):
    """A request that is refused; `status` is the HTTP status of the answer."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def refuse(
    rule: str, *, name: str, got: object, status: int = 422, remedy: str = ""
) -> NoReturn:
    """Raise a `RequestError` that says which rule was broken, and by what."""
    msg = _check.must(rule, caller="predict", name=name, got=got, remedy=remedy)
    raise RequestError(status, msg)


def too_large(
    what: str,
    *,
    got: object,
    max_bytes: int,
    unit: str = "bytes",
    remedy: str = "Send smaller batches",
) -> NoReturn:
    """Raise a `RequestError` with status 413."""
    rule = f"at most {max_bytes} {unit}"
    msg = _check.must(rule, caller="predict", name=what, got=got, remedy=remedy)
    raise RequestError(413, msg)
