"""Several server processes on one port, with common counts."""

import logging
import logging.config
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import connection, resource_tracker
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

import numpy as np
from fastapi import FastAPI
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from uvicorn.config import LOGGING_CONFIG

from openset.serve import _server
from openset.serve._metrics import ROW

Make = Callable[[], FastAPI]

_LOG = logging.getLogger("uvicorn.error")
_LOOK = 0.2  # seconds between two checks for signals and dead processes
_YOUNG = 10.0  # seconds; a process that dies earlier is restarted with a delay
_LONGEST_PAUSE = 30.0  # seconds; longest delay of a restart
_BAD = 3  # exit code of a worker that could not make its application


class Workers:
    """Starts server processes, replaces those that die, and stops all of them.

    Each makes its own application: networks and threads do not survive a fork. All
    accept from one listening socket, so the system distributes the connections.
    """

    def __init__(
        self, make: Make, listening: socket.socket, n: int, stop_seconds: float
    ) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._memory = self._context.RawArray("b", n * ROW.itemsize)
        self._rows = _rows(self._memory)
        self._arguments = (make, listening, stop_seconds)
        self._listening = listening
        self._stop_seconds = stop_seconds
        self._is_stopping = False
        self._processes: dict[int, BaseProcess] = {}
        self._born = dict.fromkeys(range(n), 0.0)
        self._young = dict.fromkeys(range(n), 0)  # processes in a row that died early
        self._due: dict[int, float] = {}

    def run(self, address: str) -> None:
        """Serve until a signal."""
        logging.config.dictConfig(LOGGING_CONFIG)
        with _server.heeding(self._note):
            try:
                for place in range(self._rows.size):
                    self._processes[place] = self._started(place)
                self._watch(address)
            finally:
                self._stop()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._is_stopping = True

    def _started(self, place: int) -> BaseProcess:
        self._rows["is_ready"][place] = 0
        process = self._context.Process(
            target=_work,
            args=(*self._arguments, self._memory, place),
            name=f"openset worker {place}",
        )
        with _without_signals():
            process.start()
        self._born[place] = time.monotonic()
        return process

    def _watch(self, address: str) -> None:
        """Log when all are ready, and restart processes that die."""
        is_announced = False
        while not self._is_stopping:
            if not is_announced and self._rows["is_ready"].all():
                n = self._rows.size
                _LOG.info("Serving at %s by %d processes", address, n)
                is_announced = True
            alive = [one.sentinel for one in self._processes.values()]
            connection.wait(alive, timeout=_LOOK)
            for place, process in list(self._processes.items()):
                if process.exitcode is not None and not self._is_stopping:
                    if not is_announced:
                        msg = (
                            "openset.serve.run: a server process ended before all were "
                            f"ready (exit code {process.exitcode}); see its messages"
                        )
                        raise ChildProcessError(msg)
                    self._bury(place)
            for place, due in list(self._due.items()):
                if time.monotonic() >= due and not self._is_stopping:
                    del self._due[place]
                    self._processes[place] = self._started(place)

    def _bury(self, place: int) -> None:
        """Schedule a restart: at once, or later if processes keep dying early."""
        process = self._processes.pop(place)
        self._rows["held"][place] = 0
        lived = time.monotonic() - self._born[place]
        self._young[place] = self._young[place] + 1 if lived < _YOUNG else 0
        pause = min(_LONGEST_PAUSE, 0.5 * 2 ** min(self._young[place], 8)) - 0.5
        self._due[place] = time.monotonic() + pause
        _LOG.error(
            "Server process %s ended (exit code %s): starting another in %.1f s",
            process.pid,
            process.exitcode,
            pause,
        )

    def _stop(self) -> None:
        """Stop accepting, and wait until all accepted requests are answered."""
        _server.admit_nobody(self._listening)
        time.sleep(_server.HANDSHAKE)  # connections being opened are accepted
        processes = self._processes.values()
        for process in processes:
            process.terminate()
        self._listening.close()  # refuses new connections once all have closed it
        for process in processes:
            process.join(self._stop_seconds + 10)
            if process.exitcode is None:
                process.kill()
                process.join()


@contextmanager
def _without_signals() -> Iterator[None]:
    """Start processes with Ctrl-C and SIGHUP blocked until they can handle them.

    A terminal sends both to all processes of its group. One that is still importing
    would end at once; so it inherits blocked signals, and the parent stops it.
    """
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # starting it later would unblock the signals
    both = {signal.SIGINT, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, both)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _hear_signals() -> None:
    """Drop a pending Ctrl-C and unblock later ones; ignore SIGHUP.

    At SIGHUP the parent stops its processes.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGHUP})


def _work(
    make: Make, listening: socket.socket, stop_seconds: float, memory: Any, place: int
) -> None:
    """Run one server process."""
    _hear_signals()
    rows = _rows(memory)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # The processes share the cores. Loaded libraries are limited below; those loaded
    # later (torch, onnxruntime) read the environment variable.
    share = max(1, (os.cpu_count() or 1) // rows.size)
    os.environ.setdefault("OMP_NUM_THREADS", str(share))
    with threadpool_limits(share):
        try:
            application = make()
        except (OSError, ValueError, ImportError) as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
            sys.exit(_BAD)
        application.state.metrics.join(rows, place)
        application.state.limits.join(rows["held"], place)
        server = _server.Server(_server.config(application, stop_seconds))
        rows["is_ready"][place] = 1
        kind = listening.family, listening.type, socket.IPPROTO_TCP  # see _run.py
        mine = _server.OneAtATime(*kind, fileno=listening.detach())
        server.run(sockets=[mine])


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


def _rows(memory: Any) -> NDArray[np.void]:
    return np.frombuffer(memory, dtype=ROW)
