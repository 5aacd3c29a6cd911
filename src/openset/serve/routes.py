"""The web application and its routes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import FastAPI, File, Request, Response, UploadFile
from fastapi.responses import HTMLResponse, JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.middleware.body_limit import RequestBodyLimitMiddleware

from openset._version import __version__
from openset.serve import arrays, v2
from openset.serve.arrays import RequestError, refuse
from openset.serve.decider import Decider, plain
from openset.serve.metrics import Watch

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


def make(decider: Decider, name: str, version: str, max_bytes: int) -> FastAPI:
    """Make the application; see :func:`openset.serve.app`."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        if decider.traffic is not None:
            decider.traffic.close()

    made = FastAPI(title="openset", version=__version__, lifespan=lifespan)
    made.add_middleware(RequestBodyLimitMiddleware, max_body_size=max_bytes)
    made.add_middleware(Watch, metrics=decider.metrics, version=version)
    made.add_exception_handler(RequestError, _refused)
    _add_decisions(made, decider, max_bytes)
    _add_descriptions(made, decider, version)
    made.include_router(v2.router(decider, name, version))
    return made


async def _refused(request: Request, error: Exception) -> Response:
    """Answer a request that is refused."""
    name = "error" if request.url.path.startswith("/v2") else "detail"
    status = getattr(error, "status", 422)
    return JSONResponse({name: str(error)}, status_code=status)


_ANSWERS: Any = {"responses": {200: {"model": Answer}}, "response_class": Response}


def _takes(kind: str, schema: dict[str, Any]) -> Any:
    """Describe a body that is not read by FastAPI.

    Its parsing takes longer than deciding.
    """
    body = {"content": {kind: {"schema": schema}}, "required": True}
    return {"openapi_extra": {"requestBody": body}, **_ANSWERS}


def _add_decisions(made: FastAPI, decider: Decider, max_bytes: int) -> None:
    def decided(given: Any, threshold: Cut, ids: Any = None) -> Response:
        found, cut = decider.decide(given, threshold, ids)
        document = {
            "decisions": found.labels.tolist(),
            "names": decider.names_of(found.labels).tolist(),
            "predicted": found.predicted.tolist(),
            "known": plain(found.known),
            "threshold": plain(cut),
            "n_unknown": found.n_rejected,
        }
        if decider.invalid == "reject":
            document["invalid"] = found.is_invalid.tolist()
        if found.sets is not None:
            document["sets"] = found.set_classes
        return Response(to_json(document), media_type="application/json")

    @made.post("/predict", **_takes("application/json", Batch.model_json_schema()))
    async def predict(request: Request) -> Response:
        """Decide on a small batch, as JSON."""
        body = await request.body()

        def work() -> Response:
            batch = arrays.parsed(Batch, body)
            given = {
                key: arrays.of_rows(key, rows)
                for key in arrays.NUMBERS
                if (rows := getattr(batch, key)) is not None
            }
            return decided(given, batch.threshold, batch.ids)

        return await run_in_threadpool(work)

    @made.post("/predict/npz", **_takes("application/octet-stream", {"type": "string"}))
    async def predict_npz(request: Request, threshold: float | None = None) -> Response:
        """Decide on an archive of arrays, as `Outputs.save` and `numpy.savez` write."""
        body = await request.body()

        def work() -> Response:
            return decided(arrays.from_npz(body, max_bytes=max_bytes), threshold)

        return await run_in_threadpool(work)

    @made.post("/predict/images", **_ANSWERS)
    def predict_images(
        files: Annotated[list[UploadFile], File()],
        threshold: float | None = None,
    ) -> Response:
        """Decide on PNG and JPEG files, sent as a form."""
        if decider.network is None or decider.network.kind != "image":
            refuse(422, "the request", "arrays: no network for images is here", "files")
        contents = [one.file.read() for one in files]
        images = arrays.images(contents, keep=decider.invalid == "reject")
        names = [one.filename or "" for one in files]
        return decided({"inputs": images}, threshold, names)


def _add_descriptions(made: FastAPI, decider: Decider, version: str) -> None:
    @made.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Say that the server is up, and which rejector it serves."""
        return {"status": "ok", "rejector": version}

    @made.get("/rejector")
    async def rejector() -> Response:
        """Describe the detector, its threshold and its classes."""
        text = to_json(decider.about(), indent=2)
        return Response(text, media_type="application/json")

    @made.get("/metrics")
    async def counts() -> Response:
        """Count requests and decisions, for Prometheus."""
        return Response(decider.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @made.get("/", include_in_schema=False)
    async def index() -> HTMLResponse:
        """Return a page to try the rejector."""
        return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY})


_PAGE = resources.files("openset.serve").joinpath("page.html").read_text("utf-8")
_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src blob:; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)
