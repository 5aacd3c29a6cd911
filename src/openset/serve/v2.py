"""The Open Inference Protocol v2 (KServe, Triton): tensors in JSON or binary.

https://github.com/kserve/open-inference-protocol, and Triton's extension for binary
tensors: JSON first, ``Inference-Header-Content-Length`` bytes of it, then the numbers
of each tensor in the order of the document.
"""

import math
import struct
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool

from openset._version import __version__
from openset.rejector import Decisions
from openset.serve.arrays import NUMBERS, checked, parsed, refuse
from openset.serve.decider import Decider, plain

HEADER = "Inference-Header-Content-Length"
_TYPES = {
    "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8",
    "INT8": "i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8",
    "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
_OUTPUTS = {
    "decision": "INT64",
    "name": "BYTES",
    "predicted": "INT64",
    "known": "FP64",
    "threshold": "FP64",
    "invalid": "BOOL",
    "set": "BOOL",
}
_Size = Annotated[int, Field(gt=0, lt=1 << 40)]
_Numbers = Annotated[list[float], Field(fail_fast=True)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _Binary(_Strict):
    binary_data_size: Annotated[int, Field(ge=0)] = 0
    binary_data: bool | None = None


class _Tensor(_Strict):
    name: Literal["logits", "features", "inputs"]
    datatype: str
    shape: Annotated[list[_Size], Field(min_length=1, max_length=8)]
    parameters: _Binary = _Binary()
    data: _Numbers | Annotated[list[_Numbers], Field(fail_fast=True)] | None = None


class _Wanted(_Strict):
    name: str
    parameters: _Binary = _Binary()


class _Parameters(_Strict):
    threshold: float | Literal["inf", "-inf"] | None = None
    binary_data_output: bool = False


class _Document(_Strict):
    """The JSON part of a request."""

    id: str = ""
    inputs: Annotated[list[_Tensor], Field(min_length=1, max_length=3)]
    outputs: (
        Annotated[list[_Wanted], Field(max_length=9), Field(fail_fast=True)] | None
    ) = None
    parameters: _Parameters = _Parameters()


def router(decider: Decider, name: str, version: str) -> APIRouter:
    """Return the paths of the protocol."""
    made = APIRouter(prefix="/v2")

    @made.get("")
    async def v2_server() -> dict[str, Any]:
        """Describe the server."""
        extensions = ["binary_tensor_data"]
        return {"name": "openset", "version": __version__, "extensions": extensions}

    @made.get("/health/live")
    @made.get("/health/ready")
    async def v2_health() -> dict[str, bool]:
        """Say that the server is up."""
        return {"live": True, "ready": True}

    @made.get("/models/{model}")
    @made.get("/models/{model}/ready")
    @made.get("/models/{model}/versions/{number}")
    @made.get("/models/{model}/versions/{number}/ready")
    async def v2_model(model: str, number: str = "") -> Response:
        """Describe the rejector as a model."""
        if (model, number or version) != (name, version):
            return JSONResponse({"error": f"no model {model!r:.80}"}, status_code=404)
        return JSONResponse(describe(decider, name, version))

    @made.post("/models/{model}/infer")
    @made.post("/models/{model}/versions/{number}/infer")
    async def v2_infer(request: Request, model: str, number: str = "") -> Response:
        """Decide on tensors."""
        if (model, number or version) != (name, version):
            return await v2_model(model, number)
        body = await request.body()

        def work() -> Response:
            document, tensors = parse(body, request.headers)
            found, cut = decider.decide(tensors, document.parameters.threshold)
            values = values_of(found, decider.names_of(found.labels), cut)
            if decider.invalid == "error":
                del values["invalid"]
            return written(document, values, name, version)

        return await run_in_threadpool(work)

    return made


def describe(decider: Decider, name: str, version: str) -> dict[str, Any]:
    """Describe the rejector as a model."""
    about = decider.about()
    widths = {"logits": "n_classes", "features": "n_features"}
    inputs = []
    for one in about["needs"]:
        width = about["widths"].get(widths.get(one)) or -1
        image = about["takes"] == "image"
        kind, shape = ("UINT8", [-1, -1, -1, 3]) if image else ("FP32", [-1, width])
        inputs.append({"name": one, "datatype": kind, "shape": shape})
    absent = {"invalid": decider.invalid == "error", "set": about["sets"] is None}
    outputs = [
        {"name": one, "datatype": kind, "shape": [-1, -1] if one == "set" else [-1]}
        for one, kind in _OUTPUTS.items()
        if not absent.get(one)
    ]
    head = {"name": name, "versions": [version], "platform": "openset", "ready": True}
    return {**head, "inputs": inputs, "outputs": outputs}


def parse(
    body: bytes, headers: Mapping[str, str]
) -> tuple[_Document, dict[str, NDArray[Any]]]:
    """Return the JSON of a body, and its tensors."""
    size = headers.get(HEADER.lower(), str(len(body)))
    n_json = int(size[:20]) if size.isdecimal() else -1
    if not 0 <= n_json <= len(body):
        refuse(400, HEADER, "at most the length of the body", size)
    document = parsed(_Document, body[:n_json])
    arrays: dict[str, NDArray[Any]] = {}
    at = n_json
    for tensor in document.inputs:
        n_bytes = tensor.parameters.binary_data_size
        if n_bytes > len(body) - at:
            rule = f"from 0 to the {len(body) - at} bytes that are there"
            refuse(422, f"binary_data_size of {tensor.name}", rule, n_bytes)
        if tensor.name in arrays:
            rule = f"each of {', '.join(NUMBERS)} at most once"
            refuse(422, "inputs", rule, f"{tensor.name} twice")
        arrays[tensor.name] = _array(tensor, body[at : at + n_bytes])
        at += n_bytes
    if at != len(body):
        refuse(422, "the body", "as long as it says", f"{len(body) - at} bytes more")
    return document, arrays


def _array(tensor: _Tensor, content: bytes) -> NDArray[Any]:
    name, kind = tensor.name, tensor.datatype
    if kind not in _TYPES:
        refuse(422, f"datatype of {name}", f"one of {', '.join(_TYPES)}", repr(kind))
    dtype = np.dtype(_TYPES[kind])
    try:
        given = np.array(tensor.data or [], np.float64)
        given = np.frombuffer(content, dtype) if content else given
        with np.errstate(all="ignore"):
            rows = given.astype(dtype, copy=False).reshape(tensor.shape)
    except ValueError as error:
        rule = f"{math.prod(tensor.shape)} numbers of {kind}, as its shape says"
        refuse(422, name, rule, error)
    is_converted = dtype.kind != "f" and not content
    if is_converted and not np.array_equal(rows.ravel(), given.ravel()):
        refuse(422, name, f"integers in the range of {kind}", "others")
    return checked(name, rows)


def values_of(
    decided: Decisions, names: NDArray[Any], threshold: float
) -> dict[str, NDArray[Any]]:
    """Return the tensors of an answer."""
    values: dict[str, Any] = {
        "decision": decided.labels.astype("<i8"),
        "name": names,
        "predicted": decided.predicted.astype("<i8"),
        "known": decided.known.astype("<f8"),
        "threshold": np.full(len(decided), threshold, "<f8"),
        "invalid": decided.is_invalid,
        "set": decided.sets,
    }
    return {name: one for name, one in values.items() if one is not None}


def written(
    asked: _Document, values: Mapping[str, NDArray[Any]], name: str, version: str
) -> Response:
    """Write the answer: tensors in JSON, or binary if the request asks for it."""
    wanted = asked.outputs
    if wanted is None:
        wanted = [_Wanted(name=one) for one in values]
    outputs, contents = [], []
    for one in wanted:
        if one.name not in values:
            refuse(422, "outputs", f"of {', '.join(values)}", repr(one.name))
        array, is_binary = values[one.name], one.parameters.binary_data
        if is_binary is None:
            is_binary = asked.parameters.binary_data_output
        kind = _OUTPUTS[one.name]
        tensor: dict[str, Any] = {"name": one.name, "datatype": kind}
        tensor["shape"] = list(array.shape)
        if is_binary:
            contents.append(_binary(array))
            tensor["parameters"] = {"binary_data_size": len(contents[-1])}
        else:
            flat = array.ravel()
            tensor["data"] = plain(flat) if kind == "FP64" else flat.tolist()
        outputs.append(tensor)
    document = {"model_name": name, "model_version": version, "outputs": outputs}
    if asked.id:
        document["id"] = asked.id
    text = to_json(document)
    if not contents:
        return Response(text, media_type="application/json")
    media, headers = "application/octet-stream", {HEADER: str(len(text))}
    return Response(b"".join([text, *contents]), media_type=media, headers=headers)


def _binary(array: NDArray[Any]) -> bytes:
    if array.dtype != object:
        return np.ascontiguousarray(array).tobytes()
    texts = [text.encode() for text in array]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)
