"""Several server processes on one port: more cores, one set of counts."""

import logging
import logging.config
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from multiprocessing import connection
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
_LOOK = 0.2  # seconds between two looks at signals and processes
_BAD = 3  # exit code of a worker that could not make its application


class Workers:
    """Starts server processes, replaces those that die, and stops all of them.

    Each makes the application by itself: networks and threads do not survive a fork.
    All accept from one listening socket, so that the system deals connections out.
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
        self._processes: list[BaseProcess] = []

    def run(self, address: str) -> None:
        """Serve until a signal."""
        logging.config.dictConfig(LOGGING_CONFIG)
        before = {
            one: signal.signal(one, self._note)
            for one in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            self._processes = [self._started(i) for i in range(self._rows.size)]
            self._watch(address)
        finally:
            self._stop()
            for one, handler in before.items():
                signal.signal(one, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._is_stopping = True

    def _started(self, place: int) -> BaseProcess:
        self._rows["is_ready"][place] = 0
        process = self._context.Process(
            target=_work,
            args=(*self._arguments, self._memory, place),
            name=f"openset worker {place}",
        )
        process.start()
        return process

    def _watch(self, address: str) -> None:
        """Say when all are ready; start another for each that dies."""
        is_announced = False
        while not self._is_stopping:
            if not is_announced and self._rows["is_ready"].all():
                n = self._rows.size
                _LOG.info("Serving at %s by %d processes", address, n)
                is_announced = True
            connection.wait([one.sentinel for one in self._processes], timeout=_LOOK)
            for place, process in enumerate(self._processes):
                if process.exitcode is None or self._is_stopping:
                    continue
                if not self._rows["is_ready"][place]:
                    msg = (
                        "openset.serve.run: a server process ended before it was ready "
                        f"(exit code {process.exitcode}); see what it said above"
                    )
                    raise ChildProcessError(msg)
                _LOG.error(
                    "Server process %d ended (exit code %s): starting another",
                    process.pid,
                    process.exitcode,
                )
                self._processes[place] = self._started(place)

    def _stop(self) -> None:
        """Let nobody in, and wait until all have answered what they had accepted."""
        _server.admit_nobody(self._listening)
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(self._stop_seconds + 10)
            if process.exitcode is None:
                process.kill()
                process.join()


def _work(
    make: Make, listening: socket.socket, stop_seconds: float, memory: Any, place: int
) -> None:
    """Serve in a process of its own."""
    rows = _rows(memory)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # All cores for each process would only take each other's.
    with threadpool_limits(max(1, (os.cpu_count() or 1) // rows.size)):
        try:
            application = make()
        except (OSError, ValueError, ImportError) as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
            sys.exit(_BAD)
        application.state.metrics.join(rows, place)
        server = _server.Server(_server.config(application, stop_seconds))
        rows["is_ready"][place] = 1
        server.run(sockets=[_OneAtATime(fileno=listening.detach())])


class _OneAtATime(socket.socket):
    """A listening socket that gives one connection at a time.

    asyncio takes as many as there are: a process that is first to wake up would have
    all that came together, and the others nothing to do.
    """

    _has_given = False

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; the second time at once there is none, as it says."""
        self._has_given = not self._has_given
        if not self._has_given:
            raise BlockingIOError
        try:
            return super().accept()
        except OSError:
            self._has_given = False
            raise


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


def _rows(memory: Any) -> NDArray[np.void]:
    return np.frombuffer(memory, dtype=ROW)
