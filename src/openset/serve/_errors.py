"""What a client did wrong, as a status code and one of our sentences."""

from typing import NoReturn

from openset import _check


class RequestError(ValueError):
    """A request that is refused; `status` is its HTTP status, 400 to 499."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def refuse(
    rule: str, *, name: str, got: object, status: int = 422, remedy: str = ""
) -> NoReturn:
    """Refuse a request in the sentence all our errors share."""
    msg = _check.must(rule, caller="predict", name=name, got=got, remedy=remedy)
    raise RequestError(status, msg)


def too_large(what: str, *, got: object, max_bytes: int) -> NoReturn:
    """Refuse something for its size."""
    rule = f"at most {max_bytes} bytes"
    msg = _check.must(
        rule, caller="predict", name=what, got=got, remedy="Send smaller batches"
    )
    raise RequestError(413, msg)
