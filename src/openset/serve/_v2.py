"""The Open Inference Protocol v2 (KServe, Triton): its tensors, in JSON or binary.

https://github.com/kserve/open-inference-protocol, and for binary tensors Triton's
extension: JSON first, ``Inference-Header-Content-Length`` bytes of it, then the numbers
of each tensor in the order of the document.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.responses import Response

from openset._version import __version__
from openset.serve import _images
from openset.serve._arrays import checked
from openset.serve._body import (
    BatchRequest,
    as_array,
    read_json,
    read_threshold,
    refuse_encoding,
)
from openset.serve._errors import refuse, too_large
from openset.serve._media import JSON, OCTETS
from openset.serve._responses import BatchAnswer, Decider, as_json, plain

HEADER = "Inference-Header-Content-Length"
IMAGES = "images"
_TYPES = {
    "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8",
    "INT8": "i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8",
    "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
_NAMES = {np.dtype(code): name for name, code in _TYPES.items()}
_OUTPUTS = {
    "decision": "INT64",
    "name": "BYTES",
    "predicted": "INT64",
    "known": "FP64",
    "threshold": "FP64",
}
_INVALID = "invalid"  # if invalid samples are rejected, not refused
_SET = "set"  # samples by classes, if the rejector has prediction sets


def server() -> dict[str, Any]:
    """Describe the server."""
    extensions = ["binary_tensor_data"]
    return {"name": "openset", "version": __version__, "extensions": extensions}


def model(decider: Decider, name: str, version: str) -> dict[str, Any]:
    """Describe the rejector, with the network in front of it if there is one."""
    inputs = []
    if decider.model is not None:
        shape = [-1 if n is None else n for n in decider.model.shape] or [-1]
        kind = _NAMES.get(decider.model.dtype, "FP32")
        inputs.append({"name": "inputs", "datatype": kind, "shape": shape})
        if decider.takes_images:
            inputs.append({"name": IMAGES, "datatype": "BYTES", "shape": [-1]})
    else:
        widths = decider.rejector.fitted.widths
        for one in decider.names:
            width = widths.get("n_classes" if one == "logits" else "n_features")
            shape = [-1, width or -1]
            inputs.append({"name": one, "datatype": "FP32", "shape": shape})
    outputs: list[dict[str, Any]] = [
        {"name": one, "datatype": kind, "shape": [-1]} for one, kind in _OUTPUTS.items()
    ]
    if decider.invalid == "reject":
        outputs.append({"name": _INVALID, "datatype": "BOOL", "shape": [-1]})
    if decider.rejector.sets is not None:
        n_classes = decider.rejector.fitted.widths.get("n_classes") or -1
        shape = [-1, n_classes]
        outputs.append({"name": _SET, "datatype": "BOOL", "shape": shape})
    return {
        "name": name,
        "versions": [version],
        "platform": "openset",
        "inputs": inputs,
        "outputs": outputs,
    }


class Infer:
    """One request to ``infer``.

    Parameters
    ----------
    decider
        Makes the decisions.
    name, version
        Name and version of the model, for the answer.
    headers
        Headers of the request.
    max_json_bytes
        Largest size of the document.
    """

    def __init__(
        self,
        decider: Decider,
        name: str,
        version: str,
        headers: Mapping[str, str],
        max_json_bytes: int,
    ) -> None:
        self._decider = decider
        self._head = {"model_name": name, "model_version": version}
        self._headers = headers
        self._max_json_bytes = max_json_bytes
        self._asked: dict[str, Any] = {}

    def parse(self, body: bytes) -> BatchRequest:
        """Turn the body into arrays."""
        refuse_encoding(self._headers.get("content-encoding", ""))
        size = self._headers.get(HEADER.lower(), "")
        n_json = int(size[:20]) if size.isdecimal() else len(body)
        if (size and not size.isdecimal()) or n_json > len(body):
            rule = "at most the length of the body"
            refuse(rule, name=HEADER, got=repr(size[:40]), status=400)
        if n_json > self._max_json_bytes:
            too_large(
                "the JSON of a request",
                got=n_json,
                max_bytes=self._max_json_bytes,
                remedy="Send the tensors as binary data",
            )
        document = read_json(body[:n_json])
        if not isinstance(document, dict) or not _are_objects(document.get("inputs")):
            rule = "an object with a list of inputs"
            refuse(rule, name="the body", got=f"a {type(document).__name__}")
        self._asked = document
        rest = _Rest(body, n_json)
        names = self._decider.names
        if self._decider.takes_images:
            names = (*names, IMAGES)
        given: dict[str, Any] = {}
        for one in document["inputs"]:
            name = one.get("name")
            if name not in names or name in given:
                rule = f"each of {', '.join(names)} at most once"
                refuse(rule, name="inputs", got=repr(name)[:80])
            given[name] = _tensor(one, rest, keep=self._decider.invalid == "reject")
        rest.check_empty()
        images = given.pop(IMAGES, ())
        if not given and not images:
            refuse(" or ".join(names), name="inputs", got="none of them")
        ids = None
        if isinstance(document.get("id"), str) and document["id"]:
            n = len(images) or len(next(iter(given.values())))
            ids = np.array([f"{document['id'][:200]}-{i}" for i in range(n)])
        override = _parameters(document).get("threshold")
        cut = None if override is None else read_threshold(override)
        return BatchRequest(given, images, cut, ids)

    def write(self, one: BatchAnswer) -> Response:
        """Write the answer: tensors in JSON, or binary if the request asks for it."""
        n = len(one.decisions)
        values: dict[str, NDArray[Any]] = {
            "decision": one.decisions.labels.astype("<i8"),
            "name": self._decider.names_of(one.decisions.labels),
            "predicted": one.decisions.predicted.astype("<i8"),
            "known": one.decisions.known.astype("<f8"),
            "threshold": np.broadcast_to(np.asarray(one.threshold, "<f8"), n),
        }
        if self._decider.invalid == "reject":
            values[_INVALID] = one.decisions.is_invalid
        if one.decisions.sets is not None:
            values[_SET] = one.decisions.sets
        outputs, contents = [], []
        for name, is_binary in self._wanted(tuple(values)):
            array = values[name]
            tensor: dict[str, Any] = {
                "name": name,
                "datatype": _OUTPUTS.get(name, "BOOL"),
                "shape": list(array.shape),
            }
            if is_binary:
                content = _binary(array)
                tensor["parameters"] = {"binary_data_size": len(content)}
                contents.append(content)
            else:
                is_float = array.dtype.kind == "f"
                # Rows may follow one another in one list, which all clients read.
                flat = array.ravel()
                tensor["data"] = plain(flat) if is_float else flat.tolist()
            outputs.append(tensor)
        document = {**self._head, "outputs": outputs}
        if isinstance(self._asked.get("id"), str):
            document["id"] = self._asked["id"]
        text = as_json(document)
        if not contents:
            return Response(text, media_type=JSON)
        return Response(
            b"".join([text, *contents]),
            media_type=OCTETS,
            headers={HEADER: str(len(text))},
        )

    def _wanted(self, names: tuple[str, ...]) -> list[tuple[str, bool]]:
        """Return the names of the outputs, and whether each is binary."""
        by_default = _flag(
            _parameters(self._asked), "binary_data_output", default=False
        )
        asked = self._asked.get("outputs")
        if asked is None:
            return [(name, by_default) for name in names]
        if not _are_objects(asked):
            refuse("a list of objects", name="outputs", got=type(asked).__name__)
        wanted = []
        for one in asked:
            if one.get("name") not in names:
                rule = f"of {', '.join(names)}"
                refuse(rule, name="outputs", got=repr(one.get("name"))[:80])
            is_binary = _flag(_parameters(one), "binary_data", default=by_default)
            wanted.append((one["name"], is_binary))
        return wanted


class _Rest:
    """The binary part of a body."""

    def __init__(self, body: bytes, start: int) -> None:
        self._body, self._at = body, start

    def take(self, name: str, size: Any) -> bytes:
        is_number = isinstance(size, int) and not isinstance(size, bool)
        left = len(self._body) - self._at
        if not is_number or not 0 <= size <= left:
            rule = f"from 0 to the {left} bytes that are left"
            refuse(rule, name=f"binary_data_size of {name}", got=repr(size)[:40])
        self._at += size
        return self._body[self._at - size : self._at]

    def check_empty(self) -> None:
        left = len(self._body) - self._at
        if left:
            refuse("used up by the inputs", name="the body", got=f"{left} bytes more")


def _tensor(one: Mapping[str, Any], rest: _Rest, *, keep: bool) -> Any:
    """Return an array, or the images of a tensor of bytes."""
    name, kind, shape = one["name"], one.get("datatype"), one.get("shape", [])
    if not _is_shape(shape):
        refuse("a list of sizes", name=f"shape of {name}", got=repr(shape)[:80])
    parameters = _parameters(one)
    content = None
    if "binary_data_size" in parameters:
        content = rest.take(name, parameters["binary_data_size"])
    if name == IMAGES:
        if kind != "BYTES" or content is None:
            refuse("BYTES, binary", name=f"datatype of {name}", got=repr(kind)[:40])
        return _images.decoded(_strings(content, math.prod(shape)), keep=keep)
    if kind not in _TYPES:
        rule = f"one of {', '.join(_TYPES)}"
        refuse(rule, name=f"datatype of {name}", got=repr(kind)[:40])
    dtype = np.dtype(_TYPES[kind])
    if content is None:
        array = _numbers(name, as_array(name, one.get("data")).ravel(), kind)
    else:
        if len(content) % dtype.itemsize:
            got = f"{len(content)} bytes"
            refuse(f"whole numbers of {kind}", name=name, got=got)
        array = np.frombuffer(content, dtype)
    if array.size != math.prod(shape):
        rule = f"as many numbers as its shape {shape} says"
        refuse(rule, name=name, got=array.size)
    return checked(name, array.reshape(shape))


def _numbers(name: str, flat: NDArray[Any], kind: str) -> NDArray[Any]:
    """Return numbers as the datatype that the request names."""
    dtype = np.dtype(_TYPES[kind])
    if dtype.kind == "f":
        with np.errstate(over="ignore"):  # beyond its range: infinite
            return flat.astype(dtype)
    if flat.dtype.kind == "f":
        refuse(f"integers ({kind})", name=name, got="numbers with a point")
    low, high, limits = int(flat.min()), int(flat.max()), np.iinfo(dtype)
    if low < limits.min or high > limits.max:  # they would wrap: 256 to 0
        rule = f"from {limits.min} to {limits.max} ({kind})"
        refuse(rule, name=name, got=f"values from {low} to {high}")
    return flat.astype(dtype)


def _strings(content: bytes, n: int) -> list[tuple[str, bytes]]:
    """Return the elements of a tensor of bytes, each after its length."""
    found: list[tuple[str, bytes]] = []
    at = 0
    while at < len(content):
        size = struct.unpack_from("<I", content, at)[0] if at + 4 <= len(content) else 0
        at += 4 + size
        if at > len(content):
            refuse("lengths and bytes", name=IMAGES, got="a cut one", status=400)
        found.append((f"image {len(found)}", content[at - size : at]))
    if len(found) != n:
        refuse(f"{n}, as their shape says", name=IMAGES, got=len(found))
    return found


def _binary(array: NDArray[Any]) -> bytes:
    if array.dtype != object:
        return np.ascontiguousarray(array).tobytes()
    texts = [str(text).encode() for text in array]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def _parameters(one: Mapping[str, Any]) -> Mapping[str, Any]:
    found = one.get("parameters", {})
    if not isinstance(found, dict):
        refuse("an object", name="parameters", got=type(found).__name__)
    return found


def _flag(parameters: Mapping[str, Any], name: str, *, default: bool) -> bool:
    found = parameters.get(name, default)
    if not isinstance(found, bool):  # the text "false" is truthy
        refuse("true or false", name=name, got=repr(found)[:40])
    return found


def _are_objects(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(one, dict) for one in values)


def _is_shape(shape: Any) -> bool:
    return (
        isinstance(shape, Sequence)
        and 0 < len(shape) <= 8
        and all(type(n) is int and 0 < n < 2**40 for n in shape)
    )
