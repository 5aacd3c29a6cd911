"""Limits of requests: size of a body, of all bodies, their speed, and their number."""

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from openset.serve._errors import RequestError, too_large
from openset.serve._media import is_json

LEAST_RATE = 100_000
"""Bytes per second at which a body must arrive, after its first seconds."""


@dataclass(kw_only=True)
class Limits:
    """The limits, and what the requests of this process hold at the moment.

    Attributes
    ----------
    max_bytes, max_json_bytes
        Largest body, and largest body of JSON.
    max_in_flight
        Largest total size of the bodies that have arrived, in part or as a whole.
    max_requests
        Largest number of requests that have arrived and wait for their answer.
    body_seconds
        Seconds for a body to arrive; one more for every 100,000 bytes of it.
    """

    max_bytes: int
    max_json_bytes: int
    max_in_flight: int
    max_requests: int
    body_seconds: float
    held: int = field(default=0, init=False)
    n_requests: int = field(default=0, init=False)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count a request, or raise 503 if too many wait for their answer."""
        if self.n_requests >= self.max_requests:
            msg = (
                "predict: the number of simultaneous requests must be at most "
                f"{self.max_requests}, got one more. Send it again later"
            )
            raise RequestError(503, msg)
        self.n_requests += 1
        try:
            yield
        finally:
            self.n_requests -= 1

    @contextmanager
    def body(self) -> Iterator["Body"]:
        """Count the bytes of a body until the request is answered."""
        one = Body(self)
        try:
            yield one
        finally:
            self.held -= one.size


class Body:
    """The body of one request; its bytes are counted as they arrive."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.size = 0

    async def read(self, receive: Receive, kind: str, declared: str | None) -> bytes:
        """Read it; raise as soon as it exceeds a limit of size or time.

        Parameters
        ----------
        receive
            Of the request.
        kind, declared
            Its Content-Type and Content-Length.
        """
        if declared is not None and declared.isdecimal():
            size = int(declared[:20])  # more digits are too large anyway
            self._check(size, kind, got=size)
        parts: list[bytes] = []
        loop = asyncio.get_running_loop()
        end = loop.time() + self._limits.body_seconds
        try:
            while True:
                deadline = end + self.size / LEAST_RATE
                async with asyncio.timeout_at(deadline):
                    message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                part = message.get("body", b"")
                self._grow(len(part), kind)
                parts.append(part)
                if not message.get("more_body", False):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
        except TimeoutError as error:
            seconds = self._limits.body_seconds
            msg = (
                f"predict: the body must arrive within {seconds:g} seconds, plus "
                f"one for every {LEAST_RATE} bytes, got {self.size} bytes in that "
                "time"
            )
            raise RequestError(408, msg) from error

    def _grow(self, more: int, kind: str) -> None:
        self._check(self.size + more, kind, got="more")
        limit = self._limits.max_in_flight
        if self._limits.held + more > limit:
            msg = (
                f"predict: all request bodies together must be at most {limit} "
                f"bytes, got {more} more in addition to {self._limits.held}. Send "
                "it again later"
            )
            raise RequestError(503, msg)
        self.size += more
        self._limits.held += more

    def _check(self, size: int, kind: str, *, got: object) -> None:
        limits = self._limits
        if size > limits.max_bytes:
            too_large("the body", got=got, max_bytes=limits.max_bytes)
        # JSON takes up to fifty times its size in memory, and the interpreter does
        # nothing else while it is parsed.
        if size > (limits.max_json_bytes if is_json(kind) else math.inf):
            too_large(
                "a body of JSON",
                got=got,
                max_bytes=limits.max_json_bytes,
                remedy="Send the arrays as .npz or .npy, or smaller batches",
            )
