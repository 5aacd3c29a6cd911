"""Serve a rejector over HTTP: send arrays, images or texts, get classes or "unknown".

Needs the extra `serve`; with a network in front of the rejector also `torch` or `onnx`,
and for images `vision`. There is no login and no TLS, and slow clients are not cut off:
that is the work of the proxy in front. What only the application can check is checked
here: sizes, archives, images and arrays.
"""

import logging
import os
import socket
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from openset import _check
from openset._backends import cores
from openset._optional import optional
from openset.rejector import Invalid, Rejector

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["app", "run"]


def app(
    rejector: Rejector,
    *,
    network: Any = None,
    invalid: Invalid = "error",
    name: str = "openset",
    version: str = "1",
    log: str | Path | None = None,
    log_rate: float = 0.01,
    max_bytes: int = 32 << 20,
) -> "FastAPI":
    """Make the web application.

    Parameters
    ----------
    rejector
        Decides which samples are known.
    network
        A network to run before it (:func:`openset.extract.load`), so that clients send
        images, texts or rows of numbers. It is tried out here.
    invalid
        What to do with samples without an answer: with NaN, of a class that is not
        determined, or a file that is no image. ``"error"`` refuses the request (422).
        ``"reject"`` answers them with unknown and marks them.
    name, version
        Name and version of the model in the Open Inference Protocol. Every answer has
        the version as the header ``X-Openset-Rejector``.
    log, log_rate
        Folder to log a random part of the traffic to, for ``openset watch``, and the
        probability that a sample is logged.
    max_bytes
        Largest request body; a larger one is answered with 413. JSON, which takes many
        times its size in memory, may have 1 MiB: send large batches as ``.npz``.

    Examples
    --------
    >>> from openset import Outputs, detectors
    >>> known = Outputs(logits=[[4.0, 0.0], [0.0, 4.0]], labels=[0, 1])
    >>> rejector = Rejector.calibrate(
    ...     detectors.MSP().fit(known), known=known, objective="at_tpr"
    ... )
    >>> from starlette.testclient import TestClient
    >>> with TestClient(app(rejector)) as client:
    ...     client.post("/predict", json={"logits": [[0.0, 5.0], [2.0, 1.0]]}).json()
    {'decisions': [1, -1], 'names': ['1', 'unknown'], 'predicted': [1, 0],
     'known': [5.0, 1.0], 'threshold': 4.0, 'n_unknown': 1}
    """
    caller = "openset.serve.app"
    for module in ("fastapi", "prometheus_client"):
        optional(module, "serve")
    # The extra may be missing.
    from openset.serve.decider import Decider  # noqa: PLC0415
    from openset.serve.routes import make  # noqa: PLC0415
    from openset.serve.traffic import Traffic  # noqa: PLC0415

    _check.one_of(caller, "invalid", invalid, get_args(Invalid))
    _check.positive_int(caller, "max_bytes", max_bytes)
    traffic = None if log is None else Traffic(Path(log), rate=log_rate)
    decider = Decider(rejector, network, invalid, traffic)
    return make(decider, name, version, max_bytes)


def run(
    make: "Callable[[], FastAPI]",
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
) -> None:
    """Serve with uvicorn until SIGTERM or Ctrl-C.

    Requests that are being answered then have 30 seconds; beyond 10,000 connections of
    a process, others are answered with 503.

    Parameters
    ----------
    make
        A function that returns the result of :func:`app`. Each of several workers calls
        it: it must be importable, or a :func:`functools.partial` of such a function.
    host, port
        Address to listen on; port 0 chooses a free port and logs it.
    workers
        Number of processes. Each has a copy of the rejector; ``/metrics`` adds up the
        counts of all. One that dies is replaced.
    """
    uvicorn = optional("uvicorn", "serve")
    _check.positive_int("openset.serve.run", "workers", workers)
    made = make() if workers == 1 else None  # its errors come first
    # The processes share the cores; libraries read this when they are loaded.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // workers)))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only for sockets that say they are TCP, which
    # uvicorn's own do not: an answer would wait 40 ms for a packet of the client.
    with (
        socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as one,
        tempfile.TemporaryDirectory(prefix="openset-serve-") as folder,
    ):
        if os.name == "posix":  # elsewhere it means to take the port of another
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((host, port))
        one.listen(2048)  # who connects before all is loaded waits
        where = f"[{host}]" if ":" in host else host
        config = uvicorn.Config(
            partial(_started, made or make, f"http://{where}:{one.getsockname()[1]}"),
            factory=True,
            workers=workers,
            limit_concurrency=10_000,
            timeout_graceful_shutdown=30,
            access_log=False,  # /metrics counts the requests
            server_header=False,
        )
        if workers == 1:
            uvicorn.Server(config).run(sockets=[one])
            return
        # prometheus_client adds up the counts that the processes leave there.
        os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", folder)
        supervisors = optional("uvicorn.supervisors", "serve")
        supervisors.Multiprocess(config, sockets=[one]).run()


def _started(given: Any, address: str) -> "FastAPI":
    """Return the application of a process, and say that it is there."""
    made: FastAPI = given if hasattr(given, "router") else given()
    logging.getLogger("uvicorn.error").info("Serving at %s", address)
    return made
