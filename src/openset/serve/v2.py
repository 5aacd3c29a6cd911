"""The Open Inference Protocol v2 (KServe, Triton): tensors in JSON or binary.

https://github.com/kserve/open-inference-protocol, and Triton's extension for binary
tensors: JSON first, ``Inference-Header-Content-Length`` bytes of it, then the numbers
of each tensor in the order of the document.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Response
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json

from openset.rejector import Decisions
from openset.serve.arrays import NUMBERS, checked, refuse
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


@dataclass(frozen=True, eq=False)
class Asked:
    """A parsed request."""

    document: _Document
    arrays: Mapping[str, NDArray[Any]]


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
    left_out = {"invalid"} if decider.invalid == "error" else set()
    left_out |= {"set"} if about["sets"] is None else set()
    outputs = [
        {"name": one, "datatype": kind, "shape": [-1, -1] if one == "set" else [-1]}
        for one, kind in _OUTPUTS.items()
        if one not in left_out
    ]
    head = {"name": name, "versions": [version], "platform": "openset", "ready": True}
    return {**head, "inputs": inputs, "outputs": outputs}


def parse(body: bytes, headers: Mapping[str, str], max_json_bytes: int) -> Asked:
    """Turn a body into arrays."""
    size = headers.get(HEADER.lower(), str(len(body)))
    n_json = int(size[:20]) if size.isdecimal() else -1
    if not 0 <= n_json <= len(body):
        refuse(400, HEADER, "at most the length of the body", size)
    if n_json > max_json_bytes:
        refuse(413, "the JSON of a request", f"at most {max_json_bytes} bytes", n_json)
    try:
        document = _Document.model_validate_json(body[:n_json])
    except ValidationError as error:
        refuse(422, "the document", "of the Open Inference Protocol", first_of(error))
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
    return Asked(document, arrays)


def first_of(error: ValidationError) -> str:
    """Return the first thing that pydantic found, in a line."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))[:80]
    return f"{first['msg'][:120]} ({place})" if place else first["msg"][:120]


def _array(tensor: _Tensor, content: bytes) -> NDArray[Any]:
    name, kind = tensor.name, tensor.datatype
    if kind not in _TYPES:
        refuse(422, f"datatype of {name}", f"one of {', '.join(_TYPES)}", repr(kind))
    dtype = np.dtype(_TYPES[kind])
    try:
        if content:
            flat = np.frombuffer(content, dtype)
        else:
            given = np.array(tensor.data or [], np.float64).ravel()
            with np.errstate(all="ignore"):
                flat = given.astype(dtype)
            if dtype.kind != "f" and not np.array_equal(flat, given):
                refuse(422, name, f"integers in the range of {kind}", "others")
        rows = flat.reshape(tensor.shape)
    except (TypeError, ValueError) as error:
        if hasattr(error, "status"):
            raise
        rule = f"{math.prod(tensor.shape)} numbers of {kind}, as its shape says"
        refuse(422, name, rule, error)
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
    asked: Asked, values: Mapping[str, NDArray[Any]], name: str, version: str
) -> Response:
    """Write the answer: tensors in JSON, or binary if the request asks for it."""
    wanted = asked.document.outputs
    if wanted is None:
        wanted = [_Wanted(name=one) for one in values]
    outputs, contents = [], []
    for one in wanted:
        if one.name not in values:
            refuse(422, "outputs", f"of {', '.join(values)}", repr(one.name))
        array, is_binary = values[one.name], one.parameters.binary_data
        if is_binary is None:
            is_binary = asked.document.parameters.binary_data_output
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
    if asked.document.id:
        document["id"] = asked.document.id
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
