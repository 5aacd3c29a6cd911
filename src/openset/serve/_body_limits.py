"""Limits of request bodies: the size of one, the size of all, the time to arrive."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np
from numpy.typing import NDArray
from starlette.requests import ClientDisconnect, Request

from openset.serve._errors import RequestError, too_large
from openset.serve._media import is_json
from openset.serve._npy import Buffer

UPLOAD = "openset.upload"
"""Key of a request's scope that holds its `Upload`, if `HttpConnection` reads it."""


class BodyLimits:
    """The limits, and the number of bytes all requests hold at the moment.

    Several processes share one limit: each writes its own count to a shared array and
    reads the counts of all. Two processes that read at the same moment may both take
    the last free bytes, so the limit can be exceeded by one body per process.
    """

    def __init__(
        self, *, max_bytes: int, max_json_bytes: int, max_in_flight: int, seconds: float
    ) -> None:
        self.max_bytes = max_bytes
        self._max_json_bytes = max_json_bytes
        self.max_in_flight = max_in_flight
        self.seconds = seconds
        self.join(np.zeros(1, np.int64), 0)
        # All connections read into it: each takes its bytes out before the next reads.
        self.scratch = memoryview(bytearray(64 << 10))

    def largest(self, content_type: str) -> int:
        """Return the largest size of a body of this type.

        JSON has a limit of its own: it takes up to fifty times its size in memory, and
        the interpreter does nothing else while it is parsed.
        """
        if is_json(content_type):
            return min(self.max_bytes, self._max_json_bytes)
        return self.max_bytes

    def join(self, held: NDArray[np.int64], place: int) -> None:
        """Count in `held[place]` from now on; the limit is on the sum of `held`."""
        self._held, self._place = held, place

    @property
    def held(self) -> int:
        """Bytes held now, by all processes."""
        return int(self._held.sum())

    def hold(self, more: int) -> None:
        """Add bytes to the count of this process; negative: they are free again."""
        self._held[self._place] += more

    async def read(self, request: Request, hold: "Reservation") -> Buffer:
        """Read a body; raise as soon as it exceeds a limit of size or time."""
        upload: Upload | None = request.scope.get(UPLOAD)
        declared = request.headers.get("content-length")
        kind = request.headers.get("content-type", "")
        if upload is None and declared is not None and declared.isdecimal():
            size = int(declared[:20])  # more digits are too large anyway
            self._check_size(size, kind, got=size)
            hold.grow_to(size)
        body = bytearray()
        try:
            async with asyncio.timeout(self.seconds):
                if upload is not None:
                    return await upload.complete()
                await self._collect(request.stream(), body, hold, kind)
        except TimeoutError as error:
            n_bytes = len(body) if upload is None else upload.n_bytes
            msg = (
                f"predict: the body must arrive within {self.seconds:g} seconds, got "
                f"{n_bytes} bytes by then"
            )
            raise RequestError(408, msg) from error
        return body

    async def _collect(
        self,
        chunks: AsyncIterator[bytes],
        body: bytearray,
        hold: "Reservation",
        kind: str,
    ) -> None:
        async for chunk in chunks:
            size = len(body) + len(chunk)
            self._check_size(size, kind, got="more")
            hold.grow_to(size)
            body += chunk

    def _check_size(self, size: int, kind: str, *, got: object) -> None:
        largest = self.largest(kind)
        if size > self.max_bytes:
            too_large("the body", got=got, max_bytes=self.max_bytes)
        if size > largest:
            too_large(
                "a body of JSON",
                got=got,
                max_bytes=largest,
                remedy="Send the arrays as .npz or .npy, or smaller batches",
            )


class Reservation:
    """The bytes one request holds, counted until they are released."""

    def __init__(self, limits: BodyLimits) -> None:
        self._limits = limits
        self._size = 0

    def grow_to(self, size: int) -> None:
        """Reserve `size` bytes in all, or raise 503 if too many are held already."""
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
        """Release all reserved bytes."""
        self._limits.hold(-self._size)
        self._size = 0


class Upload:
    """A body of declared length; the socket writes straight into its memory."""

    def __init__(self, hold: Reservation, size: int) -> None:
        self.hold = hold
        self.n_bytes = 0
        # Not bytearray, which would fill its memory with zeros first.
        self._body = np.empty(size, np.uint8).data
        self._changed = asyncio.Event()
        self._is_lost = False

    @property
    def rest(self) -> memoryview:
        """The part of the memory that is still to be filled."""
        return self._body[self.n_bytes :]

    @property
    def is_complete(self) -> bool:
        """Whether all bytes have arrived."""
        return self.n_bytes == len(self._body)

    def grow(self, n_bytes: int) -> None:
        """Count bytes that were written to `rest`."""
        self.n_bytes += n_bytes
        if self.is_complete:
            self._changed.set()

    def lose(self) -> None:
        """Note that the client is gone and the rest will not arrive."""
        self._is_lost = True
        self._changed.set()

    async def complete(self) -> memoryview:
        """Wait until all bytes have arrived, and return them."""
        await self._changed.wait()
        if self._is_lost and not self.is_complete:
            raise ClientDisconnect
        return self._body
