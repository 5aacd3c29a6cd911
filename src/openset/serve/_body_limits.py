"""Bodies on their way in: how long one may be, and how much all of them may hold."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np
from numpy.typing import NDArray
from starlette.requests import ClientDisconnect, Request

from openset.serve._errors import RequestError, too_large
from openset.serve._npy import Buffer

UPLOAD = "openset.upload"
"""Where a request's scope holds an `Upload`, if our own protocol reads the body."""


class BodyLimits:
    """The limits, and the bytes all requests hold at the moment.

    Several processes share one limit: each writes what it holds to a place of its own
    and reads those of all. Two that look at the same moment may both take the last
    bytes, so the limit can be passed by a body for each process.
    """

    def __init__(self, *, max_bytes: int, max_in_flight: int, seconds: float) -> None:
        self.max_bytes = max_bytes
        self.max_in_flight = max_in_flight
        self.seconds = seconds
        self.join(np.zeros(1, np.int64), 0)
        # Where connections read to: what one has read it takes out before the next.
        self.scratch = memoryview(bytearray(64 << 10))

    def join(self, held: NDArray[np.int64], place: int) -> None:
        """Count what is held here from now on, and look at all of it."""
        self._held, self._place = held, place

    @property
    def held(self) -> int:
        """Bytes held now, by all processes."""
        return int(self._held.sum())

    def hold(self, more: int) -> None:
        """Count bytes that are held from now on, or with a minus no longer."""
        self._held[self._place] += more

    async def read(self, request: Request, hold: "Reservation") -> Buffer:
        """Collect a body, and stop as soon as it is too long, too slow or too much."""
        upload: Upload | None = request.scope.get(UPLOAD)
        declared = request.headers.get("content-length")
        if upload is None and declared is not None and declared.isdecimal():
            size = int(declared[:20])  # no one has more digits of bytes
            if size > self.max_bytes:
                too_large("the body", got=size, max_bytes=self.max_bytes)
            hold.grow_to(size)
        body = bytearray()
        try:
            async with asyncio.timeout(self.seconds):
                if upload is not None:
                    return await upload.complete()
                await self._collect(request.stream(), body, hold)
        except TimeoutError as error:
            n_bytes = len(body) if upload is None else upload.n_bytes
            msg = (
                f"predict: the body must arrive within {self.seconds:g} seconds, got "
                f"{n_bytes} bytes by then"
            )
            raise RequestError(408, msg) from error
        return body

    async def _collect(
        self, chunks: AsyncIterator[bytes], body: bytearray, hold: "Reservation"
    ) -> None:
        async for chunk in chunks:
            size = len(body) + len(chunk)
            if size > self.max_bytes:
                too_large("the body", got="more", max_bytes=self.max_bytes)
            hold.grow_to(size)
            body += chunk


class Reservation:
    """What one request takes of the bytes in flight, until it is released."""

    def __init__(self, limits: BodyLimits) -> None:
        self._limits = limits
        self._size = 0

    def grow_to(self, size: int) -> None:
        """Take as many bytes, or refuse if others hold too many."""
        more = max(0, size - self._size)
        held = self._limits.held
        if held + more > self._limits.max_in_flight:
            msg = (
                f"predict: bodies in flight must be at most "
                f"{self._limits.max_in_flight} bytes together, got {size} more than "
                f"the {held} held now. Send it again later"
            )
            raise RequestError(503, msg)
        self._limits.hold(more)
        self._size += more

    def release(self) -> None:
        """Give all of it back."""
        self._limits.hold(-self._size)
        self._size = 0


class Upload:
    """A body of declared length, which the socket writes to where it stays."""

    def __init__(self, hold: Reservation, size: int) -> None:
        self.hold = hold
        self.n_bytes = 0
        # Not bytearray: that would write zeros to every page first.
        self._body = np.empty(size, np.uint8).data
        self._changed = asyncio.Event()
        self._is_lost = False

    @property
    def rest(self) -> memoryview:
        """Where the next bytes belong."""
        return self._body[self.n_bytes :]

    @property
    def is_complete(self) -> bool:
        """Whether all has come."""
        return self.n_bytes == len(self._body)

    def grow(self, n_bytes: int) -> None:
        """Count bytes that were written to `rest`."""
        self.n_bytes += n_bytes
        if self.is_complete:
            self._changed.set()

    def lose(self) -> None:
        """Say that no more will come."""
        self._is_lost = True
        self._changed.set()

    async def complete(self) -> memoryview:
        """Wait for all of it."""
        await self._changed.wait()
        if self._is_lost and not self.is_complete:
            raise ClientDisconnect
        return self._body
