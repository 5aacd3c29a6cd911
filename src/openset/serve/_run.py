"""Run an application on a port."""

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import connection
from multiprocessing.reduction import ForkingPickler
from pickle import (
    PicklingError,  # only our own function is pickled, for our own workers
)
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from threadpoolctl import threadpool_limits
from uvicorn.supervisors import Multiprocess

from openset import _check, _locks
from openset._backends import cores
from openset.serve import _signals
from openset.serve._connections import (
    BACKLOG,
    Connection,
    Connections,
    most_connections,
)
from openset.serve._metrics import FOLDER

Make = Callable[[], FastAPI]

_BAD = 3  # exit code that tells uvicorn not to start that worker again
_LOG = logging.getLogger("uvicorn.error")
_LONGEST_HEAD = 128 << 10  # bytes of headers


def run(
    application: FastAPI | Make,
    *,
    host: str,
    port: int,
    stop_seconds: float,
    idle_seconds: float,
    max_connections: int | None,
    workers: int,
) -> None:
    """Serve until a signal; see :func:`openset.serve.run`."""
    is_v6 = ":" in host
    most = most_connections() if max_connections is None else max_connections
    with _listening(host, port, is_v6=is_v6) as one:
        address = f"http://{f'[{host}]' if is_v6 else host}:{one.getsockname()[1]}"
        if workers == 1:
            made = application if isinstance(application, FastAPI) else application()
            made.state.address = address
            config = _config(made, stop_seconds, Connections(most, idle_seconds))
            server = uvicorn.Server(config)

            def stop(*_: object) -> None:
                server.should_exit = True

            # uvicorn raises its signals again when it has stopped: a clean stop ends
            # with exit code 0.
            with _signals.heeding(stop):
                server.run(sockets=[one])
            return
        shared = _shared(application)
        shared()  # what cannot work is refused here, before a process is started
        make = partial(_worker, shared, address, workers)
        config = _config(make, stop_seconds, Connections(most, idle_seconds), workers)
        with _locks.temporary_folder("openset-serve-") as folder:
            os.environ[FOLDER] = str(folder)
            try:
                _supervise(config, one)
            finally:
                del os.environ[FOLDER]


def _config(
    app: Any, stop_seconds: float, connections: Connections, workers: int = 1
) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=workers > 1,
        workers=workers,
        backlog=BACKLOG,
        timeout_graceful_shutdown=max(1, round(stop_seconds)),
        timeout_keep_alive=max(1, round(connections.seconds)),
        timeout_worker_healthcheck=60,  # importing a network library takes a while
        access_log=False,  # /metrics counts the requests
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        http=partial(Connection, connections),  # type: ignore[arg-type]
        h11_max_incomplete_event_size=_LONGEST_HEAD,
        loop="asyncio",  # the tests use this one
        ws="none",
    )


class _Supervisor(Multiprocess):
    """uvicorn's, but it notices at once that a worker has died.

    uvicorn asks the workers for a sign of life through pipes. It keeps its own copy of
    a worker's end, so the pipe of a worker that dies before it answers stays open, and
    nothing else happens until the answer is overdue: no replacement, no stop.
    """

    def keep_subprocess_alive(self) -> None:
        """Ask all workers, and replace those that are dead."""
        for one in self.processes:
            one.child_conn.close()
        with suppress(EOFError):  # a worker died just now: it is replaced the next time
            super().keep_subprocess_alive()


def _supervise(config: uvicorn.Config, listening: socket.socket) -> None:
    """Let uvicorn start the workers and replace those that die."""
    wanted = _signals.names()
    before = {one: signal.getsignal(one) for one in signal.Signals if one in _FORWARDED}
    supervisor = _Supervisor(config, sockets=[listening])
    queue = signal.getsignal(signal.SIGTERM)

    def stop(_: int, frame: FrameType | None) -> None:
        # Once the workers have closed their copies too, connections are refused.
        listening.close()
        if callable(queue):
            queue(signal.SIGTERM, frame)

    # uvicorn's would start new workers at a hang-up, also of a server under nohup.
    for one in _FORWARDED:
        signal.signal(one, stop if one in wanted else signal.SIG_IGN)
    try:
        supervisor.run()
    finally:
        for one, earlier in before.items():
            signal.signal(one, earlier)
    codes = [process.exitcode for process in supervisor.processes]
    if _BAD in codes:
        msg = "openset.serve.run: a server process could not start; see its message"
        raise ChildProcessError(msg)


_FORWARDED = [
    getattr(signal, name)
    for name in ("SIGTERM", "SIGINT", "SIGBREAK", "SIGHUP")
    if hasattr(signal, name)
]


def _worker(make: Make, address: str, workers: int) -> FastAPI:
    """Make the application of one server process."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # The processes share the cores. Loaded libraries are limited below; those loaded
    # later (torch, onnxruntime) read the environment variable.
    share = max(1, cores() // workers)
    os.environ.setdefault("OMP_NUM_THREADS", str(share))
    threadpool_limits(share)
    try:
        application = make()
    except (OSError, ValueError, ImportError) as error:
        _LOG.error("%s: %s", type(error).__name__, error)  # no traceback
        sys.stderr.flush()
        os._exit(_BAD)
    application.state.address = address
    limits = application.state.limits
    limits.max_in_flight = max(limits.max_bytes, limits.max_in_flight // workers)
    return application


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


def _shared(make: FastAPI | Make) -> Make:
    """Return the function that makes the application, if workers can import it."""
    got = "an application"
    if not isinstance(make, FastAPI):
        try:
            ForkingPickler.dumps(make)
        except (AttributeError, TypeError, PicklingError) as error:
            got = str(error)
        else:
            return make
    msg = _check.must(
        "an importable function that makes the application, for several workers",
        caller="openset.serve.run",
        name="application",
        got=got,
        remedy="Pass functools.partial(make, path) with a function that loads the "
        "rejector and returns openset.serve.app(rejector)",
    )
    raise TypeError(msg)


def _listening(host: str, port: int, *, is_v6: bool) -> socket.socket:
    family = socket.AF_INET6 if is_v6 else socket.AF_INET
    # The protocol must be named: asyncio turns Nagle's algorithm off only for sockets
    # that say they are TCP, and with it on every answer waits 40 ms for an ACK.
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform == "win32":
            # Without it another program could take over the port. (What SO_REUSEADDR
            # does elsewhere, Windows always does; there it would allow just that.)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((host, port))
        one.listen(BACKLOG)
    except OSError as error:
        one.close()
        msg = f"openset.serve.run: cannot listen on {host} port {port}: {error}"
        raise OSError(msg) from error
    return one
