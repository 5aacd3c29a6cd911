"""A uvicorn server that answers all accepted requests before it stops."""

import asyncio
import ctypes
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from openset.serve._http import HttpConnection

_LINGER = 0.5  # seconds in which open connections may send a last request
HANDSHAKE = 0.1  # seconds for connections being opened to be accepted
_SO_ATTACH_FILTER = 26  # Python's socket module does not have this constant


class Server(uvicorn.Server):
    """A server that loses no request when it stops.

    uvicorn alone drops two kinds of requests at the signal: those on their way over an
    idle connection, which it closes at once, and those over connections the system has
    accepted but the server has not. This one first stops accepting, then keeps open
    connections for a moment; the answer to their next request closes them
    (``Connection: close``).
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, answer requests of open connections, then close."""
        self.config.app.state.stopping = True  # type: ignore[union-attr]
        for one in sockets or []:
            if isinstance(one, OneAtATime):
                one.is_greedy = True  # other processes may still use the port
            else:
                admit_nobody(one)
        await asyncio.sleep(HANDSHAKE)
        for server in self.servers:
            server.close()  # the listening socket only
        loop = asyncio.get_running_loop()
        end = loop.time() + _LINGER
        while self.server_state.connections and loop.time() < end:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop at the next opportunity; a second Ctrl-C stops at once."""
        # uvicorn would raise the signal again at the end: a clean stop is exit code 0.
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


@contextmanager
def heeding(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call `handler` at the signals to stop: SIGTERM, Ctrl-C, a lost terminal.

    SIGHUP stays ignored if it is: a server started with nohup must go on.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    names = ["SIGTERM", "SIGINT", "SIGBREAK"]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        names.append("SIGHUP")
    found = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {one: signal.signal(one, handler) for one in found}
    try:
        yield
    finally:
        for one, earlier in before.items():
            signal.signal(one, earlier)


class OneAtATime(socket.socket):
    """A listening socket, shared by processes, that accepts one connection at a time.

    asyncio accepts all waiting connections: the process that wakes up first would take
    them all and leave the others idle. When the server stops it should take all of
    them: `is_greedy`.
    """

    is_greedy = False
    _has_given = False

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; right after one, report that none is waiting."""
        self._has_given = self.is_greedy or not self._has_given
        if not self._has_given:
            raise BlockingIOError
        try:
            return super().accept()
        except OSError:
            self._has_given = False
            raise


def admit_nobody(listening: socket.socket) -> None:
    """Let the system ignore new connections from now on.

    When a listening socket is closed, connections that wait to be accepted are reset,
    with the requests in them. So first a filter drops the packets that open new ones
    (Linux; a classic BPF program on the flags of the TCP header). Waiting connections
    are accepted meanwhile; new clients try again after a second and are refused.
    """
    if sys.platform != "linux":
        return
    lines = (
        (0x30, 0, 0, 13),  # load byte 13, the flags
        (0x45, 0, 1, 0x02),  # is SYN among them?
        (0x06, 0, 0, 0),  # yes: drop
        (0x06, 0, 0, 0xFFFFFFFF),  # no: pass
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *x) for x in lines))
    program = struct.pack("HP", len(lines), ctypes.addressof(code))
    with suppress(
        OSError
    ):  # not allowed in every container; then some requests may be lost
        listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def config(application: FastAPI, stop_seconds: float) -> uvicorn.Config:
    """Return the settings of a server process."""
    return uvicorn.Config(
        application,
        timeout_graceful_shutdown=max(1, round(stop_seconds)),
        access_log=False,  # /metrics counts the requests
        server_header=False,
        lifespan="off",
        http=HttpConnection,
        loop="asyncio",  # the tests use this one
        ws="none",
    )
