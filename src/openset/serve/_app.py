"""The web application: routes, and what every request passes through."""

import os
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio.to_thread import run_sync
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openset import _check
from openset._version import __version__
from openset.rejector import Rejector
from openset.serve import _body, _schema
from openset.serve._answer import Answer, Judge, plain
from openset.serve._errors import RequestError
from openset.serve._metrics import Metrics
from openset.serve._model import Model

T = TypeVar("T")

_SMALL = 64 << 10  # bytes
_QUICK = 0.002  # seconds
_PATHS = ("/predict", "/healthz", "/metrics", "/rejector", "/openapi.json", "/")
# The page is one file and talks to nobody but us.
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def make(
    rejector: Rejector,
    *,
    model: str | Path | None,
    max_bytes: int,
    body_seconds: float,
) -> FastAPI:
    """Make the application; see :func:`openset.serve.app`."""
    _check.positive_int("openset.serve.app", "max_bytes", max_bytes)
    _check.number(
        "openset.serve.app", "body_seconds", body_seconds, low=0, open_low=True
    )
    judge = Judge(rejector, None if model is None else Model(model))
    metrics = Metrics(rejector)
    application = FastAPI(
        title="openset",
        summary="A classifier that also knows when it does not know.",
        description=f"{rejector.fitted.detector!r}, threshold {rejector.threshold}",
        version=__version__,
        # Their pages load scripts from elsewhere; the schema itself stays.
        docs_url=None,
        redoc_url=None,
    )
    application.state.stopping = False
    application.add_middleware(_Counted, metrics=metrics, state=application.state)
    desk = _Desk()

    @application.exception_handler(RequestError)
    async def refused(_: Request, error: RequestError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status_code=error.status)

    @application.post(
        "/predict",
        summary="Class or unknown, for a batch",
        openapi_extra=_schema.request(judge),
        responses=_schema.responses(judge),
        response_class=Response,
    )
    async def predict(request: Request) -> Response:
        headers = request.headers
        try:
            body = await _body.read(
                request.stream(),
                declared=headers.get("content-length"),
                max_bytes=max_bytes,
                seconds=body_seconds,
            )
        except ClientDisconnect:
            return Response(status_code=499)  # the client left; for the count alone

        def work() -> tuple[Answer, bytes]:
            try:
                question = _body.parse(
                    body,
                    content_type=headers.get("content-type", ""),
                    query=request.query_params,
                    names=judge.names,
                    max_bytes=max_bytes,
                )
                one = judge(question)
                return one, judge.to_json(one)
            except RequestError:
                raise
            except ValueError as error:
                raise RequestError(422, str(error)) from error
            except MemoryError as error:
                msg = "predict: the batch must fit into memory, got one that does not"
                raise RequestError(413, msg) from error

        one, content = await desk.run(work, len(body))
        metrics.samples(one.scores.known, one.n_unknown)
        return Response(content, media_type="application/json")

    @application.get("/healthz", summary="Is it up?")
    async def health() -> dict[str, str]:
        return {"status": "stopping" if application.state.stopping else "ok"}

    @application.get(
        "/metrics", summary="Counts for Prometheus", response_class=Response
    )
    async def prometheus() -> Response:
        return Response(
            generate_latest(metrics.registry),
            headers={"Content-Type": CONTENT_TYPE_LATEST},
        )

    description = _describe(judge)

    @application.get("/rejector", summary="What answers here")
    async def about() -> dict[str, Any]:
        return description

    page = resources.files("openset.serve").joinpath("page.html").read_text("utf-8")

    @application.get("/", include_in_schema=False)
    async def index() -> HTMLResponse:
        return HTMLResponse(page, headers=_PAGE_HEADERS)

    return application


def _describe(judge: Judge) -> dict[str, Any]:
    """Return what the page needs to know."""
    rejector = judge.rejector
    threshold = rejector.threshold.to_dict()
    del threshold["fingerprint"]
    return {
        "version": __version__,
        "detector": rejector.fitted.detector.name,
        "params": rejector.fitted.detector.params(),
        "widths": dict(rejector.fitted.widths),
        "arrays": list(judge.names),
        "needs": list(_schema.needed(judge)),
        "classes": list(rejector.classes),
        "threshold": threshold,
        "threshold_text": str(rejector.threshold),
        # Every eighth of the 1025 quantiles draws the same picture.
        "reference": {n: plain(grid[::8]) for n, grid in rejector.reference.items()},
    }


class _Desk:
    """Does quick work at once and hands the rest to threads.

    A thread takes 0.2 ms to be asked, longer than most detectors take for a sample. But
    while work is done at once no other request is served, so this is for small bodies
    alone, and only as long as they were quick lately.
    """

    def __init__(self) -> None:
        # As many threads as cores: more would only take each other's cache and memory.
        self._threads = anyio.CapacityLimiter(os.cpu_count() or 1)
        self._seconds = 0.0  # the longest small body lately, slowly forgotten

    async def run(self, work: Callable[[], T], n_bytes: int) -> T:
        if n_bytes > _SMALL:
            return await run_sync(work, limiter=self._threads)

        def timed() -> T:
            start = time.perf_counter()
            try:
                return work()
            finally:
                took = time.perf_counter() - start
                self._seconds = max(took, 0.9 * self._seconds)

        if self._seconds < _QUICK:
            return timed()
        return await run_sync(timed, limiter=self._threads)


class _Counted:
    """Counts and times requests, and asks clients to leave while stopping."""

    def __init__(self, app: ASGIApp, metrics: Metrics, state: Any) -> None:
        self._app = app
        self._metrics = metrics
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if self._state.stopping:
                    # The server closes the connection after it, so that the client's
                    # next request goes elsewhere instead of into a closing socket.
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            path = scope["path"] if scope["path"] in _PATHS else "other"
            self._metrics.request(path, status, time.perf_counter() - start)
