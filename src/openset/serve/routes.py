"""The web application and its routes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import resources
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import FastAPI, File, Request, Response, UploadFile
from fastapi.responses import HTMLResponse, JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.middleware.body_limit import RequestBodyLimitMiddleware

from openset._version import __version__
from openset.serve import arrays, v2
from openset.serve.arrays import RequestError, refuse
from openset.serve.decider import Decider, plain
from openset.serve.metrics import Metrics, Watch

# Otherwise a row of a million texts is a million errors.
Rows: TypeAlias = Annotated[
    list[Annotated[list[float], Field(fail_fast=True)]], Field(fail_fast=True)
]
Texts: TypeAlias = Annotated[list[str], Field(fail_fast=True)]
Cut: TypeAlias = float | Literal["inf", "-inf"] | None
ArrayId = Annotated[str, Field(max_length=256)] | int


class Batch(BaseModel):
    """One row per sample: outputs of the network, or inputs for it."""

    model_config = ConfigDict(extra="forbid", strict=True)
    logits: Rows | None = None
    features: Rows | None = None
    inputs: Rows | Texts | None = None
    threshold: Cut = None
    ids: Annotated[list[ArrayId], Field(fail_fast=True)] | None = None


class Answer(BaseModel):
    """One decision per sample; infinite numbers are the texts "inf" and "-inf"."""

    decisions: list[int] = Field(description="Class, or -1 for unknown.")
    names: list[str]
    predicted: list[int] = Field(description="Class before rejection.")
    known: list[float | str | None] = Field(description="Larger: more known.")
    threshold: float | str
    n_unknown: int
    invalid: list[bool] | None = Field(None, description="Samples without an answer.")
    sets: list[list[int]] | None = Field(None, description="Prediction sets.")


@dataclass(frozen=True, eq=False)
class Routes:
    """What the paths of the application do; see :func:`openset.serve.app`."""

    decider: Decider
    metrics: Metrics
    name: str
    version: str
    max_bytes: int
    max_json_bytes: int

    def decided(self, given: Any, threshold: Cut, ids: Any = None) -> Response:
        """Decide, and write the answer as JSON."""
        found, cut = self.decider.decide(given, threshold, ids)
        self.metrics.samples(found)
        document = {
            "decisions": found.labels.tolist(),
            "names": self.decider.names_of(found.labels).tolist(),
            "predicted": found.predicted.tolist(),
            "known": plain(found.known),
            "threshold": plain(cut),
            "n_unknown": found.n_rejected,
        }
        if self.decider.invalid == "reject":
            document["invalid"] = found.is_invalid.tolist()
        if found.sets is not None:
            document["sets"] = found.set_classes
        return Response(to_json(document), media_type="application/json")

    # Bodies are read here, not by FastAPI: its parsing takes longer than deciding.
    async def predict(self, request: Request) -> Response:
        """Decide on a small batch, as JSON."""
        return await run_in_threadpool(self._of_json, await request.body())

    def _of_json(self, body: bytes) -> Response:
        most = self.max_json_bytes
        if len(body) > most:
            refuse(413, "a body of JSON", f"at most {most} bytes", len(body))
        try:
            batch = Batch.model_validate_json(body)
        except ValidationError as error:
            refuse(422, "the body", "as in /docs", v2.first_of(error))
        given = {key: getattr(batch, key) for key in arrays.NUMBERS}
        for key, rows in given.items():
            if rows is not None and not (rows and isinstance(rows[0], str)):
                given[key] = arrays.of_rows(key, rows)
        given = {key: rows for key, rows in given.items() if rows is not None}
        return self.decided(given, batch.threshold, batch.ids)

    async def predict_npz(
        self, request: Request, threshold: float | None = None
    ) -> Response:
        """Decide on an archive of arrays, as `Outputs.save` and `numpy.savez` write."""
        body = await request.body()

        def work() -> Response:
            given = arrays.from_npz(body, max_bytes=self.max_bytes)
            return self.decided(given, threshold)

        return await run_in_threadpool(work)

    def predict_images(
        self,
        files: Annotated[list[UploadFile], File()],
        threshold: float | None = None,
    ) -> Response:
        """Decide on PNG and JPEG files, sent as a form."""
        network = self.decider.network
        if network is None or network.kind != "image":
            refuse(422, "the request", "arrays: no network for images is here", "files")
        contents = [one.file.read() for one in files]
        images = arrays.images(contents, keep=self.decider.invalid == "reject")
        names = [one.filename or "" for one in files]
        return self.decided({"inputs": images}, threshold, names)

    async def healthz(self) -> dict[str, str]:
        """Say that the server is up, and which rejector it serves."""
        return {"status": "ok", "rejector": self.version}

    async def rejector(self) -> Response:
        """Describe the detector, its threshold and its classes."""
        text = to_json(self.decider.about(), indent=2)
        return Response(text, media_type="application/json")

    async def counts(self) -> Response:
        """Count requests and decisions, for Prometheus."""
        return Response(self.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    async def index(self) -> HTMLResponse:
        """Return a page to try the rejector."""
        return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY})

    async def v2_server(self) -> dict[str, Any]:
        """Describe the server."""
        extensions = ["binary_tensor_data"]
        return {"name": "openset", "version": __version__, "extensions": extensions}

    async def v2_health(self) -> dict[str, bool]:
        """Say that the server is up."""
        return {"live": True, "ready": True}

    async def v2_model(self, model: str, number: str = "") -> Response:
        """Describe the rejector as a model."""
        if (model, number or self.version) != (self.name, self.version):
            return JSONResponse({"error": f"no model {model!r:.80}"}, status_code=404)
        return JSONResponse(v2.describe(self.decider, self.name, self.version))

    async def v2_infer(
        self, request: Request, model: str, number: str = ""
    ) -> Response:
        """Decide on tensors."""
        if (model, number or self.version) != (self.name, self.version):
            return await self.v2_model(model, number)
        body, decider = await request.body(), self.decider

        def work() -> Response:
            asked = v2.parse(body, request.headers, self.max_json_bytes)
            wanted = asked.document.parameters.threshold
            found, cut = decider.decide(asked.arrays, wanted)
            self.metrics.samples(found)
            values = v2.values_of(found, decider.names_of(found.labels), cut)
            if decider.invalid == "error":
                del values["invalid"]
            return v2.written(asked, values, self.name, self.version)

        return await run_in_threadpool(work)


_PAGE = resources.files("openset.serve").joinpath("page.html").read_text("utf-8")
_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src blob:; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
_V2 = "/v2/models/{model}"
_PATHS = {
    "healthz": ["/healthz"],
    "rejector": ["/rejector"],
    "counts": ["/metrics"],
    "v2_server": ["/v2"],
    "v2_health": ["/v2/health/live", "/v2/health/ready"],
    "v2_model": [
        *(f"{_V2}{end}" for end in ("", "/ready")),
        *(f"{_V2}/versions/{{number}}{end}" for end in ("", "/ready")),
    ],
}


async def refused(request: Request, error: Exception) -> Response:
    """Answer a request that is refused."""
    name = "error" if request.url.path.startswith("/v2") else "detail"
    status = getattr(error, "status", 422)
    return JSONResponse({name: str(error)}, status_code=status)


def make(routes: Routes) -> FastAPI:
    """Make the application."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        if routes.decider.traffic is not None:
            routes.decider.traffic.close()

    made = FastAPI(title="openset", version=__version__, lifespan=lifespan)
    most, version = routes.max_bytes, routes.version
    made.add_middleware(RequestBodyLimitMiddleware, max_body_size=most)
    made.add_middleware(Watch, metrics=routes.metrics, version=version)
    made.add_exception_handler(RequestError, refused)
    of_answer: Any = {"responses": {200: {"model": Answer}}, "response_class": Response}
    bodies = {
        routes.predict: ("", "application/json", Batch.model_json_schema()),
        routes.predict_npz: ("/npz", "application/octet-stream", {"type": "string"}),
    }
    for function, (end, kind, schema) in bodies.items():
        body = {"content": {kind: {"schema": schema}}, "required": True}
        extra = {"requestBody": body}
        made.post(f"/predict{end}", openapi_extra=extra, **of_answer)(function)
    made.post("/predict/images", **of_answer)(routes.predict_images)
    for path in (f"{_V2}/infer", f"{_V2}/versions/{{number}}/infer"):
        made.post(path)(routes.v2_infer)
    for name, paths in _PATHS.items():
        for path in paths:
            made.get(path)(getattr(routes, name))
    made.get("/", include_in_schema=False)(routes.index)
    return made
