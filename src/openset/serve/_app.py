"""The web application: its routes, and the middleware of all requests."""

import time
from importlib import resources
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openset import _check
from openset._version import __version__
from openset.rejector import Rejector
from openset.serve import _model, _schema
from openset.serve._body_limits import BodyLimits
from openset.serve._metrics import Metrics
from openset.serve._predict import Predict
from openset.serve._responses import Decider, plain

# The page is one file and talks to this server only.
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
    max_json_bytes: int,
    max_in_flight: int,
    body_seconds: float,
) -> FastAPI:
    """Make the application; see :func:`openset.serve.app`."""
    caller = "openset.serve.app"
    _check.positive_int(caller, "max_bytes", max_bytes)
    _check.positive_int(caller, "max_json_bytes", max_json_bytes)
    _check.positive_int(caller, "max_in_flight", max_in_flight)
    _check.number(caller, "body_seconds", body_seconds, low=0, open_low=True)
    decider = Decider(rejector, None if model is None else _model.load(model))
    metrics = Metrics(rejector)
    limits = BodyLimits(
        max_bytes=max_bytes,
        max_json_bytes=max_json_bytes,
        max_in_flight=max_in_flight,
        seconds=body_seconds,
    )
    predict = Predict(decider, metrics, limits)
    application = FastAPI(
        title="openset",
        summary="A classifier that also rejects inputs of unknown classes.",
        description=f"{rejector.fitted.detector!r}, threshold {rejector.threshold}",
        version=__version__,
        # The documentation pages load scripts from other sites; the schema stays.
        docs_url=None,
        redoc_url=None,
    )
    application.state.stopping = False
    application.state.limits = limits
    application.state.metrics = metrics
    application.add_middleware(
        _Middleware, predict=predict, metrics=metrics, state=application.state
    )
    application.post(
        "/predict",
        summary="Class or unknown, for a batch",
        openapi_extra=_schema.request(decider),
        responses=_schema.responses(decider),
        response_class=Response,
    )(predict.answer)
    _add_reports(application, metrics, _describe(decider))
    return application


def _add_reports(
    application: FastAPI, metrics: Metrics, description: dict[str, Any]
) -> None:
    """Add the routes for health, metrics, the rejector and the page."""

    @application.get(
        "/healthz",
        summary="Whether the server is up or stopping",
        responses={503: {"description": "The server is stopping."}},
    )
    async def health(response: Response) -> dict[str, str]:
        if not application.state.stopping:
            return {"status": "ok"}
        response.status_code = 503  # load balancers look at the status alone
        return {"status": "stopping"}

    @application.get(
        "/metrics", summary="Counts for Prometheus", response_class=Response
    )
    async def prometheus() -> Response:
        return Response(
            generate_latest(metrics.registry),
            headers={"Content-Type": CONTENT_TYPE_LATEST},
        )

    @application.get("/rejector", summary="The detector, its threshold and its classes")
    async def about() -> dict[str, Any]:
        return description

    page = resources.files("openset.serve").joinpath("page.html").read_text("utf-8")

    @application.get("/", include_in_schema=False)
    async def index() -> HTMLResponse:
        return HTMLResponse(page, headers=_PAGE_HEADERS)


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
        "needs": list(decider.needs),
        "classes": list(rejector.classes),
        "threshold": threshold,
        "threshold_text": str(rejector.threshold),
        "cautions": [str(one) for one in rejector.cautions],
        # Every eighth of the 1025 quantiles draws the same picture.
        "reference": {n: plain(grid[::8]) for n, grid in rejector.reference.items()},
    }


class _Middleware:
    """Counts and times requests; while stopping, closes connections after the answer.

    Batches are answered here: the framework's own routing takes longer than most
    detectors do.
    """

    def __init__(
        self, app: ASGIApp, predict: Predict, metrics: Metrics, state: Any
    ) -> None:
        self._app = app
        self._predict = predict
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
