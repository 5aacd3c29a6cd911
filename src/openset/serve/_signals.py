"""Signals to stop: announce it first, then let uvicorn stop."""

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

NOTICE = 0.5
"""Seconds in which a stopping server still accepts, and says that it stops."""


def names() -> list[signal.Signals]:
    """Return the signals that stop the server: SIGTERM, Ctrl-C, a closed terminal.

    SIGHUP is left out if it is ignored: a server started with nohup must go on.
    """
    found = ["SIGTERM", "SIGINT", "SIGBREAK"]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        found.append("SIGHUP")
    return [getattr(signal, name) for name in found if hasattr(signal, name)]


@contextmanager
def heeding(handler: Any) -> Iterator[None]:
    """Call `handler` at the signals to stop."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    before = {one: signal.signal(one, handler) for one in names()}
    try:
        yield
    finally:
        for one, earlier in before.items():
            signal.signal(one, earlier)


@contextmanager
def announcing(state: Any) -> Iterator[None]:
    """At a signal set `state.stopping` for a moment, then stop as uvicorn does.

    uvicorn closes idle connections at once, with the requests that are on their way
    over them. Meanwhile load balancers see 503 at ``/healthz``, and every answer closes
    its connection.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stop = signal.getsignal(signal.SIGTERM)
    loop = asyncio.get_running_loop()

    def note(number: int, frame: FrameType | None) -> None:
        if not callable(stop):  # no server, as in a test client
            return
        # To uvicorn, a lost terminal is not a signal; a second Ctrl-C stops at once.
        number = signal.SIGINT if number == signal.SIGINT else signal.SIGTERM
        if state.stopping:
            stop(number, frame)
            return
        state.stopping = True
        loop.call_soon_threadsafe(loop.call_later, NOTICE, stop, number, frame)

    with heeding(note):
        yield
