"""From an application to a port that answers."""

import logging
import socket
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pickle import (
    PicklingError,  # only our own function is pickled, for our own workers
)

from fastapi import FastAPI

from openset import _check
from openset.serve._server import Server, config, heeding
from openset.serve._workers import Workers

_LOG = logging.getLogger("uvicorn.error")


def run(
    application: FastAPI | Callable[[], FastAPI],
    *,
    host: str,
    port: int,
    stop_seconds: float,
    workers: int,
) -> None:
    """Serve until a signal; see :func:`openset.serve.run`."""
    is_v6 = ":" in host
    with _listening(host, port, is_v6=is_v6) as one:
        address = f"http://{f'[{host}]' if is_v6 else host}:{one.getsockname()[1]}"
        if workers == 1:
            made = application if isinstance(application, FastAPI) else application()
            server = Server(config(made, stop_seconds))
            with heeding(
                server.handle_exit
            ):  # a signal may come as soon as the line below is logged
                _LOG.info("Serving at %s", address)
                server.run(sockets=[one])
            return
        Workers(_shared(application), one, workers, stop_seconds).run(address)


def _shared(make: FastAPI | Callable[[], FastAPI]) -> Callable[[], FastAPI]:
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
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((host, port))
        one.listen(2048)
    except OSError as error:
        one.close()
        msg = f"openset.serve.run: cannot listen on {host} port {port}: {error}"
        raise OSError(msg) from error
    return one
