"""The web application: its routes, and the middleware of all requests."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openset._version import __version__
from openset.serve import _schema, _v2
from openset.serve._connections import CURRENT
from openset.serve._limits import Limits
from openset.serve._metrics import Metrics
from openset.serve._predict import Predict
from openset.serve._responses import Decider, plain
from openset.serve._signals import announcing
from openset.serve._traffic import Traffic

_LOG = logging.getLogger("uvicorn.error")
_WRITE_SECONDS = 60.0  # for a client to read on

# The page is one file and talks to this server only.
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def make(
    decider: Decider,
    *,
    limits: Limits,
    traffic: Traffic | None,
    name: str,
    version: str,
) -> FastAPI:
    """Make the application; see :func:`openset.serve.app`."""
    rejector = decider.rejector
    metrics = Metrics(rejector)
    predict = Predict(decider, metrics, limits, traffic)

    @asynccontextmanager
    async def lifespan(application: FastAPI) -> AsyncIterator[None]:
        with announcing(application.state):
            address = getattr(application.state, "address", "")
            if decider.takes_images and decider.model is not None:
                _LOG.info("Images: %s", decider.model.preprocessing)
            _LOG.info("Serving at %s (process %d)", address, os.getpid())
            yield
        if traffic is not None:
            traffic.close()

    application = FastAPI(
        title="openset",
        summary="A classifier that also rejects inputs of unknown classes.",
        description=f"{rejector.fitted.detector!r}, threshold {rejector.threshold}",
        version=__version__,
        # The documentation pages load scripts from other sites; the schema stays.
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    application.state.stopping = False
    application.state.limits = limits
    application.add_middleware(
        _Middleware,
        predict=predict,
        metrics=metrics,
        state=application.state,
        version=version,
    )
    application.post(
        "/predict",
        summary="Class or unknown, for a batch",
        openapi_extra=_schema.request(decider),
        responses=_schema.responses(decider),
        response_class=Response,
    )(predict.answer)
    _add_reports(application, metrics, _describe(decider), version)
    _add_v2(application, predict, decider, name, version)
    return application


def _add_reports(
    application: FastAPI, metrics: Metrics, description: dict[str, Any], version: str
) -> None:
    """Add the routes for health, metrics, the rejector and the page."""

    @application.get(
        "/healthz",
        summary="Whether the server is up or stopping, and which rejector it serves",
        responses={503: {"description": "The server is stopping."}},
    )
    async def health(response: Response) -> dict[str, str]:
        if application.state.stopping:
            response.status_code = 503  # load balancers look at the status alone
        status = "stopping" if application.state.stopping else "ok"
        return {"status": status, "rejector": version}

    @application.get(
        "/metrics", summary="Counts for Prometheus", response_class=Response
    )
    async def prometheus() -> Response:
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    @application.get("/rejector", summary="The detector, its threshold and its classes")
    async def about() -> dict[str, Any]:
        return description

    page = resources.files("openset.serve").joinpath("page.html").read_text("utf-8")

    @application.get("/", include_in_schema=False)
    async def index() -> HTMLResponse:
        return HTMLResponse(page, headers=_PAGE_HEADERS)


def _add_v2(
    application: FastAPI, predict: Predict, decider: Decider, name: str, version: str
) -> None:
    """Add the routes of the Open Inference Protocol."""
    about = _v2.model(decider, name, version)
    found = "/v2/models/{model}"
    versioned = found + "/versions/{number}"

    def is_ours(request: Request) -> bool:
        asked = request.path_params
        return asked["model"] == name and asked.get("number", version) == version

    def missing(request: Request) -> JSONResponse:
        text = f"no model {request.path_params['model'][:80]!r} of that version"
        return JSONResponse({"error": text}, status_code=404)

    async def live(_: Request) -> Response:
        return JSONResponse({"live": True})

    async def ready(request: Request) -> Response:
        if "model" in request.path_params and not is_ours(request):
            return missing(request)
        is_ready = not application.state.stopping
        return JSONResponse({"ready": is_ready}, status_code=200 if is_ready else 503)

    async def server(_: Request) -> Response:
        return JSONResponse(_v2.server())

    async def model(request: Request) -> Response:
        return JSONResponse(about) if is_ours(request) else missing(request)

    async def infer(request: Request) -> Response:
        if not is_ours(request):
            return missing(request)
        limit = application.state.limits.max_json_bytes
        one = _v2.Infer(decider, name, version, request.headers, limit)
        return await predict.decide(request, one.parse, one.write, key="error")

    for path, endpoint in (
        ("/v2/health/live", live),
        ("/v2/health/ready", ready),
        ("/v2", server),
        (found, model),
        (versioned, model),
        (found + "/ready", ready),
        (versioned + "/ready", ready),
    ):
        application.add_route(path, endpoint, methods=["GET"], include_in_schema=False)
    for path in (found, versioned):
        application.add_route(
            path + "/infer", infer, methods=["POST"], include_in_schema=False
        )


def _describe(decider: Decider) -> dict[str, Any]:
    """Return what the page needs to know."""
    rejector = decider.rejector
    threshold = rejector.threshold.to_dict()
    del threshold["fingerprint"]
    return {
        "version": __version__,
        "detector": rejector.fitted.detector.name,
        "params": rejector.fitted.detector.params(),
        "widths": dict(rejector.fitted.widths),
        "arrays": list(decider.names),
        "shape": None if decider.model is None else decider.model.shape,
        "preprocessing": "" if decider.model is None else decider.model.preprocessing,
        "needs": list(decider.needs),
        "classes": list(rejector.classes),
        "threshold": threshold,
        "threshold_text": str(rejector.threshold),
        "sets": None if rejector.sets is None else str(rejector.sets),
        "cautions": [str(one) for one in rejector.cautions],
        # A hundred of the 1025 quantiles or so draw the same picture.
        "reference": {
            n: plain(grid[:: max(1, grid.size // 128)])
            for n, grid in rejector.reference.items()
        },
    }


class _Middleware:
    """Counts and times requests; while stopping, closes connections after the answer.

    Batches are answered here: the framework's own routing takes longer than most
    detectors do.
    """

    def __init__(
        self,
        app: ASGIApp,
        predict: Predict,
        metrics: Metrics,
        state: Any,
        version: str,
    ) -> None:
        self._app = app
        self._predict = predict
        self._metrics = metrics
        self._state = state
        self._version = (b"x-openset-rejector", version.encode("latin-1", "replace"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 500
        connection = CURRENT.get()

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"].append(self._version)
                if self._state.stopping:
                    # The server closes the connection after it, so that the client's
                    # next request goes elsewhere instead of into a closing socket.
                    message["headers"].append((b"connection", b"close"))
            if connection is None or not connection.is_full:
                await send(message)  # does not wait
                return
            try:
                async with asyncio.timeout(_WRITE_SECONDS):
                    await send(message)
            except TimeoutError:  # the client does not read
                connection.abort()

        if connection is not None:
            connection.begin()
        try:
            if scope["method"] == "HEAD":
                # Load balancers send HEAD: answered like GET, and the server leaves
                # the body out.
                scope = {**scope, "method": "GET"}
            if scope["path"] == "/predict" and scope["method"] == "POST":
                answer = await self._predict.answer(Request(scope, receive))
                await answer(scope, receive, watched)
            else:
                await self._app(scope, receive, watched)
        finally:
            self._metrics.request(scope["path"], status, time.perf_counter() - start)
            if connection is not None:
                connection.end()
