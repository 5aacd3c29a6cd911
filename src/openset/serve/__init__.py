"""A rejector over HTTP: JSON and ``.npy`` batches, metrics, and a page to try it on.

Needs the extra `serve` (fastapi, uvicorn, httptools, prometheus-client); with a model
in front of the rejector also `onnx`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from openset import _check, _io
from openset.rejector import Rejector

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["app", "run"]

MAX_BYTES = 32 << 20
"""Largest request body, and largest content of an archive, unless told otherwise."""

MAX_IN_FLIGHT = 256 << 20
"""Most bytes of bodies held at once, unless told otherwise."""

LONGEST_STOP = 24 * 3600
"""Most seconds a stop may be told to wait."""


def app(
    rejector: Rejector,
    *,
    model: str | Path | None = None,
    max_bytes: int = MAX_BYTES,
    max_in_flight: int = MAX_IN_FLIGHT,
    body_seconds: float = 60.0,
) -> "FastAPI":
    """Make the web application.

    Parameters
    ----------
    rejector
        What answers.
    model
        A network to run first, so that clients send its inputs: an ONNX file (its
        outputs are called ``logits`` and ``features``, or come in that order), or the
        folder of a training run.
    max_bytes
        Largest request body; more is answered with 413 and not kept.
    max_in_flight
        Most bytes of bodies held at once, over all clients; who comes then is answered
        with 503 and asked to try again.
    body_seconds
        Time a client has to send its body; a slower one is answered with 408.

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
    _need("openset.serve.app", "fastapi", "prometheus_client")
    from openset.serve._app import make  # noqa: PLC0415  # the extra may be missing

    return make(
        rejector,
        model=model,
        max_bytes=max_bytes,
        max_in_flight=max_in_flight,
        body_seconds=body_seconds,
    )


def run(
    application: "FastAPI | Callable[[], FastAPI]",
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    stop_seconds: float = 30.0,
    workers: int = 1,
) -> None:
    """Serve until SIGTERM, SIGHUP or Ctrl-C, then answer what was accepted and return.

    Parameters
    ----------
    application
        From :func:`app`; for several workers a function that makes it, which each of
        them calls (one that :mod:`pickle` can name: of a module, or a
        :func:`functools.partial` of it).
    host, port
        Where to listen; port 0 takes a free one and logs it.
    stop_seconds
        Longest wait for requests in flight when stopping.
    workers
        Server processes. A process answers one batch at a time for the most part; as
        many as there are cores answer that many, and keep as many copies of what the
        detector remembers. ``/metrics`` tells of all of them, whoever is asked. One
        that dies is replaced.
    """
    caller = "openset.serve.run"
    _need(caller, "uvicorn", "httptools")
    from openset.serve._run import run as serve  # noqa: PLC0415  # as above

    n = _check.positive_int(caller, "workers", workers)
    _check.number(caller, "stop_seconds", stop_seconds, low=0, high=LONGEST_STOP)
    serve(application, host=host, port=port, stop_seconds=stop_seconds, workers=n)


def _need(caller: str, *modules: str) -> None:
    for module in modules:
        _io.optional(caller, module, name="serve")
