"""Time limits and a maximum number of connections, in front of uvicorn's protocol.

uvicorn waits forever for the first request of a connection and for the rest of its
headers. `Connection` is an :class:`asyncio.Protocol` that passes everything on to
uvicorn's and closes connections that are idle for too long.
"""

import asyncio
import sys
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

CURRENT: ContextVar["Connection | None"] = ContextVar("connection", default=None)
"""The connection of the request that is being answered; None in a test client."""

BACKLOG = 128
"""Connections that wait to be accepted; asyncio accepts up to as many at a time."""

# asyncio accepts up to BACKLOG + 1 in each turn of its loop, and a connection passes
# through three turns: accepted, given to its protocol, the one it replaces closed.
_PASSING = 3 * (BACKLOG + 1)
_RESERVED = 64  # files: the log, the rejector, libraries
_MOST = 4096  # connections
_MOST_IGNORED = 16 << 20  # bytes read and dropped between two requests
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-type: application/json\r\ncontent-length: 33\r\n\r\n"
    b'{"detail":"too many connections"}'
)


def most_connections() -> int:
    """Return how many connections a process may hold: fewer than it may open files."""
    if sys.platform == "win32":
        return 512 - _PASSING
    import resource  # noqa: PLC0415  # not on Windows

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST
    return max(8, min(_MOST, soft - _RESERVED - _PASSING))


@dataclass
class Connections:
    """The limits, and the connections of this process that wait for their client.

    Attributes
    ----------
    most
        Largest number of connections.
    seconds
        Longest time without a request: before the first, between two, and while the
        headers of one arrive.
    """

    most: int
    seconds: float
    n_open: int = 0
    # In the order in which they last sent something.
    waiting: dict["Connection", None] = field(default_factory=dict)

    def make_room(self) -> bool:
        """Close the connection that has been silent longest, if there are too many."""
        if self.n_open < self.most:
            return True
        if not self.waiting:
            return False
        next(iter(self.waiting)).abort()
        return True


class Connection(asyncio.Protocol):
    """One connection.

    Parameters
    ----------
    all_connections
        Those of this process.
    options
        Options that uvicorn passes to its protocol class.
    """

    def __init__(self, all_connections: Connections, **options: Any) -> None:
        self._all = all_connections
        self._inner = H11Protocol(**options)
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._n_requests = 0  # being answered; pipelined ones overlap for a moment
        self._ignored = 0
        self._is_known = False  # to uvicorn
        self._is_counted = False
        self.is_full = False
        """Whether the client does not read: writing waits for it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection, or close it if all others are being answered."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # of a socket
        self._transport = transport
        if not self._all.make_room():
            transport.write(_BUSY)
            transport.close()
            return
        self._is_counted = True
        self._all.n_open += 1
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Pass bytes on to uvicorn."""
        if not self._is_counted:
            return
        if not self._is_known:
            # Not earlier: when uvicorn stops, it closes the connections without a
            # request, although one may be on its way.
            self._is_known = True
            self._inner.connection_made(self._transport)
        if self in self._all.waiting:  # it has moved: others were silent longer
            self._all.waiting[self] = self._all.waiting.pop(self)
        if not self._n_requests:
            # Headers, or the rest of a body that was answered early (413, say). Closing
            # at once could lose that answer.
            self._ignored += len(data)
            if self._ignored > _MOST_IGNORED:
                self.abort()
                return
        CURRENT.set(self)  # uvicorn starts the request's task in this context
        self._inner.data_received(data)

    def eof_received(self) -> None:
        """Pass it on."""
        if self._is_known:
            self._inner.eof_received()

    def pause_writing(self) -> None:
        """Pass it on."""
        self.is_full = True
        if self._is_known:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self.is_full = False
        if self._is_known:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._leave()
        if self._is_known:
            self._inner.connection_lost(exc)

    def abort(self) -> None:
        """Close the connection without sending what is left."""
        self._leave()
        self._transport.abort()

    def begin(self) -> None:
        """Note that a request's headers have arrived: its body has its own deadline."""
        self._n_requests += 1
        self._ignored = 0
        self._stop_timer()

    def work(self) -> None:
        """Note that a request has arrived, so that it is no longer timed."""
        self._all.waiting.pop(self, None)

    def end(self) -> None:
        """Note that a request was answered."""
        self._n_requests -= 1
        if self._is_counted and not self._n_requests:
            self._wait()

    def _wait(self) -> None:
        self._all.waiting[self] = None
        self._stop_timer()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._all.seconds, self.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _leave(self) -> None:
        self._stop_timer()
        self._all.waiting.pop(self, None)
        if self._is_counted:
            self._all.n_open -= 1
        self._is_counted = False
