"""A rejector over HTTP: JSON and ``.npy`` batches, metrics, and a page to try it.

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
"""Default limit of a request body, and of the unpacked content of an archive."""

MAX_JSON_BYTES = 1 << 20
"""Default limit of a request body of JSON."""

MAX_IN_FLIGHT = 256 << 20
"""Default limit of the total size of the request bodies held at once."""

LONGEST_STOP = 24 * 3600
"""Largest allowed `stop_seconds`."""


def app(
    rejector: Rejector,
    *,
    model: str | Path | None = None,
    max_bytes: int = MAX_BYTES,
    max_json_bytes: int = MAX_JSON_BYTES,
    max_in_flight: int = MAX_IN_FLIGHT,
    body_seconds: float = 60.0,
) -> "FastAPI":
    """Make the web application.

    Parameters
    ----------
    rejector
        Decides which samples are known.
    model
        A network to run before the rejector, so that clients send inputs of the
        network: an ONNX file (its outputs are called ``logits`` and ``features``, or
        come in that order), or the folder of a training run.
    max_bytes
        Largest request body in bytes; a larger one is answered with 413.
    max_json_bytes
        Largest request body of JSON in bytes. Parsing JSON takes many times its size in
        memory, so large batches should be sent as ``.npz`` or ``.npy``.
    max_in_flight
        Largest total size in bytes of the bodies held at once, over all clients;
        beyond it requests are answered with 503 and a ``Retry-After`` header.
    body_seconds
        Seconds a client has to send its body; later ones are answered with 408.

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
        max_json_bytes=max_json_bytes,
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
    """Serve until SIGTERM, SIGHUP or Ctrl-C.

    Requests that were accepted before the signal are still answered.

    Parameters
    ----------
    application
        From :func:`app`; for several workers a function that makes it, called once in
        each worker. The function must be importable: defined in a module, or a
        :func:`functools.partial` of such a function.
    host, port
        Address to listen on; port 0 chooses a free port and logs it.
    stop_seconds
        Longest wait, when stopping, for requests that are being answered.
    workers
        Number of server processes. Each has a copy of the rejector and mostly answers
        one batch at a time, so one per core is a good choice. ``/metrics`` adds up the
        counts of all of them. A process that dies is replaced.
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
