"""Serve a rejector over HTTP: send arrays or images, get classes or "unknown".

Needs the extra `serve` (fastapi, uvicorn, prometheus-client, python-multipart); with a
network in front of the rejector also `onnx` or `torch`, and for images `vision`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from numpy.typing import ArrayLike

from openset import _check, _extras
from openset.rejector import Invalid, Rejector

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["app", "run"]

MAX_BYTES = 32 << 20
"""Default limit of a request body, and of the unpacked content of an archive."""

MAX_JSON_BYTES = 1 << 20
"""Default limit of a request body of JSON."""

MAX_IN_FLIGHT = 256 << 20
"""Default limit of the total size of the request bodies held at once."""

MAX_REQUESTS = 256
"""Default limit of the number of requests that wait for their answer."""

LOG_RATE, LOG_FILES = 0.01, 100
"""Default share of the samples in the traffic log, and number of its files."""

LONGEST_STOP = 24 * 3600
"""Largest allowed `stop_seconds`."""


def app(
    rejector: Rejector,
    *,
    model: Any = None,
    example: ArrayLike | None = None,
    side: int | None = None,
    mean: Sequence[float] = (0.0, 0.0, 0.0),
    std: Sequence[float] = (1.0, 1.0, 1.0),
    weights: str | Path | None = None,
    head: Any = None,
    invalid: Invalid = "error",
    name: str = "openset",
    version: str = "1",
    log: str | Path | None = None,
    log_rate: float = LOG_RATE,
    log_files: int = LOG_FILES,
    max_bytes: int = MAX_BYTES,
    max_json_bytes: int = MAX_JSON_BYTES,
    max_in_flight: int = MAX_IN_FLIGHT,
    max_requests: int = MAX_REQUESTS,
    body_seconds: float = 10.0,
) -> "FastAPI":
    """Make the web application.

    Parameters
    ----------
    rejector
        Decides which samples are known.
    model
        A network to run before the rejector, so that clients send inputs of the network
        or images. The folder of a training run; an ONNX file (outputs ``logits`` and
        ``features``, or in that order; for a file with logits only, the input of the
        last linear layer is used as features); ``timm:NAME``, ``torchvision:NAME``,
        ``hf:NAME`` or ``package.module:name``; an `extract.Network` or a torch
        module; or any function from a batch to `Outputs`, logits, (logits, features) or
        a dictionary of both. It is tried out here with one synthetic batch.
    example
        For a function: an example of its input, which is tried out here. Requests of
        other shapes and types are then refused. Default: the function gets whatever
        clients send.
    side, mean, std
        For ONNX files and torch modules: images are resized to this size, scaled to [0,
        1], and normalised per channel. Other networks come with their preprocessing.
    weights
        For timm and torchvision: a file of weights. Default: the published ones.
    head
        The last layer of a network by name, as in `extract.load`: a file, or
        an `extract.LinearHead`.
    invalid
        What to do with samples without an answer: with NaN, of a class that is not
        determined, or a file that is no image. ``"error"`` refuses the request (422).
        ``"reject"`` answers them with unknown and marks them: answers then have
        ``invalid``, and the others are answered as if these were not there.
    name, version
        Name and version of the model in the Open Inference Protocol. Every answer has
        the version as the header ``X-Openset-Rejector``.
    log, log_rate, log_files
        Log a random part of the traffic: the folder, the probability that a sample is
        logged, and the number of files to keep; older files are deleted. Files are
        called ``traffic-000001.npz``, have at most 4096 samples and are read by
        `Outputs.load`.
    max_bytes
        Largest request body in bytes; a larger one is answered with 413.
    max_json_bytes
        Largest request body of JSON in bytes. Parsing JSON takes many times its size in
        memory, so large batches should be sent as ``.npz`` or ``.npy``.
    max_in_flight
        Largest total size in bytes of the bodies held at once, over all clients;
        beyond it requests are answered with 503 and a ``Retry-After`` header.
    max_requests
        Largest number of requests that wait for their answer; beyond it, 503.
    body_seconds
        Seconds a client has to send its body, plus one for every 100,000 bytes that
        have arrived; slower ones are answered with 408.

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
    _need(caller, "fastapi", "prometheus_client")
    # The extra may be missing.
    from openset.serve import _app, _model  # noqa: PLC0415
    from openset.serve._limits import Limits  # noqa: PLC0415
    from openset.serve._responses import Decider, needs_of  # noqa: PLC0415
    from openset.serve._traffic import Traffic  # noqa: PLC0415

    for key, value in {
        "max_bytes": max_bytes,
        "max_json_bytes": max_json_bytes,
        "max_in_flight": max_in_flight,
        "max_requests": max_requests,
    }.items():
        _check.positive_int(caller, key, value)
    _check.one_of(caller, "invalid", invalid, get_args(Invalid))
    _check.number(caller, "body_seconds", body_seconds, low=0, open_low=True)
    served = None
    if model is not None:
        files = None if weights is None else str(weights)
        how = _model.Preprocessing(side, tuple(mean), tuple(std), files, head)
        served = _model.load(
            model,
            how,
            example,
            needs_of(rejector),
            input_step=rejector.input_step,
        )
    traffic = None
    if log is not None:
        traffic = Traffic(Path(log), rate=log_rate, most=log_files)
    limits = Limits(
        max_bytes=max_bytes,
        max_json_bytes=max_json_bytes,
        max_in_flight=max_in_flight,
        max_requests=max_requests,
        body_seconds=body_seconds,
    )
    return _app.make(
        Decider(rejector, served, invalid),
        limits=limits,
        traffic=traffic,
        name=name,
        version=version,
    )


def run(
    application: "FastAPI | Callable[[], FastAPI]",
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    stop_seconds: float = 30.0,
    idle_seconds: float = 10.0,
    max_connections: int | None = None,
    workers: int = 1,
) -> None:
    """Serve until SIGTERM, SIGHUP or Ctrl-C.

    For half a second the server then announces that it stops (status 503 at
    ``/healthz``, ``Connection: close`` in answers); then it closes the port and answers
    the requests it has accepted.

    Parameters
    ----------
    application
        The result of :func:`app`; for several workers a function that returns it,
        called once in each worker. The function must be importable: defined in a
        module, or a :func:`functools.partial` of such a function.
    host, port
        Address to listen on; port 0 chooses a free port and logs it.
    stop_seconds
        Longest wait, when stopping, for requests that are being answered.
    idle_seconds
        A connection is closed if no request, or only a part of its headers, has arrived
        for this long.
    max_connections
        Largest number of connections of a process; beyond it, the one that has been
        silent longest is closed. Default: a little below the system's limit on open
        files.
    workers
        Number of server processes. Each has a copy of the rejector and mostly answers
        one batch at a time, so one per core is a good choice. ``/metrics`` adds up the
        counts of all of them. A process that dies is replaced; one that cannot start
        ends the server, with an error.
    """
    caller = "openset.serve.run"
    _need(caller, "uvicorn")
    from openset.serve._run import run as serve  # noqa: PLC0415  # as above

    n = _check.positive_int(caller, "workers", workers)
    _check.number(caller, "stop_seconds", stop_seconds, low=0, high=LONGEST_STOP)
    _check.number(caller, "idle_seconds", idle_seconds, low=0, open_low=True)
    if max_connections is not None:
        _check.positive_int(caller, "max_connections", max_connections)
    serve(
        application,
        host=host,
        port=port,
        stop_seconds=stop_seconds,
        idle_seconds=idle_seconds,
        max_connections=max_connections,
        workers=n,
    )


def _need(caller: str, *modules: str) -> None:
    for module in modules:
        _extras.optional(caller, module, name="serve")
