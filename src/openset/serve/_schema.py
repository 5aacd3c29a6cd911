"""The OpenAPI description of ``/predict``, with examples of the right width."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset.serve._body import BatchRequest
from openset.serve._errors import RequestError
from openset.serve._media import BINARY, FORM, IMAGES, JSON, NPY, NPZ
from openset.serve._responses import Decider

_THRESHOLD = {
    "description": "Used instead of the calibrated threshold; "
    '"inf" rejects and "-inf" accepts all samples.',
    "anyOf": [{"type": "number"}, {"type": "string", "enum": ["inf", "-inf"]}],
}
_NUMBER = {"anyOf": [{"type": "number"}, {"type": "string", "enum": ["inf", "-inf"]}]}
_IDS = {
    "description": "Names of the samples, for the traffic log.",
    "type": "array",
    "items": {"type": "string", "maxLength": 256},
}
_LARGEST_EXAMPLE = 10_000  # numbers
_BINARY = {"type": "string", "format": "binary"}

ERRORS = {
    400: "The body is not what its Content-Type says.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The Content-Type is not supported, or the body is compressed.",
    422: "The arrays do not fit the rejector (names, shapes or values).",
    503: "Too many request bodies are held at the moment; see Retry-After.",
}


def request(decider: Decider) -> dict[str, Any]:
    """Describe the body and the query of ``/predict``."""
    examples = {name: _example(decider, name) for name in decider.names}
    document = {
        "type": "object",
        "additionalProperties": False,
        "minProperties": 1,
        "properties": {
            **{n: _rows(_depth(decider)) for n in decider.names},
            "threshold": _THRESHOLD,
            "ids": _IDS,
        },
    }
    binary = {"schema": _BINARY}
    value = {n: rows.tolist() for n, rows in examples.items() if n in decider.needs}
    shown = {
        "two samples": {"value": value},
        "with a threshold": {"value": {**value, "threshold": 0.5}},
    }
    is_right = _is_answered(decider, examples)
    return {
        "requestBody": {
            "required": True,
            "description": "JSON; or a .npy file with one array; or a .npz file with "
            f"{' and '.join(decider.names)}.",
            "content": {
                JSON: {
                    "schema": document,
                    **({"examples": shown} if is_right else {}),
                },
                **dict.fromkeys(BINARY, binary),
                **(_images() if decider.takes_images else {}),
            },
        },
        "parameters": [
            {
                "name": "threshold",
                "in": "query",
                "required": False,
                "schema": _THRESHOLD,
            },
            {
                "name": "name",
                "in": "query",
                "required": False,
                "description": "Name of the array in a .npy body.",
                "schema": {"type": "string", "enum": list(decider.names)},
            },
        ],
    }


def responses(decider: Decider) -> dict[int | str, dict[str, Any]]:
    """Describe the answers of ``/predict``."""
    integers = {"type": "array", "items": {"type": "integer"}}
    names = {"type": "array", "items": {"type": "string"}}
    properties: dict[str, Any] = {
        "decisions": {**integers, "description": "Class of each sample, or -1."},
        "names": {**names, "description": 'Its name, or "unknown".'},
        "predicted": {**integers, "description": "Predicted class, before rejection."},
        "known": {
            "type": "array",
            "items": _NUMBER,
            "description": "Knownness: higher means more known.",
        },
        "threshold": {
            **_NUMBER,
            "description": "A sample is accepted if its knownness is at least this.",
        },
        "n_unknown": {"type": "integer"},
    }
    example: dict[str, Any] = {
        "decisions": [0, -1],
        "names": [decider.rejector.name_of(0), "unknown"],
        "predicted": [0, 0],
        "known": [4.2, 0.3],
        "threshold": 1.5,
        "n_unknown": 1,
    }
    if decider.invalid == "reject":
        properties |= {
            "known": {
                "type": "array",
                "items": {"anyOf": [*_NUMBER["anyOf"], {"type": "null"}]},
                "description": "Knownness: higher means more known; null if invalid.",
            },
            "predicted": {
                **integers,
                "description": "Predicted class, before rejection; -1 if invalid.",
            },
            "invalid": {
                "type": "array",
                "items": {"type": "boolean"},
                "description": "Whether the sample has no answer, such as one with "
                "NaN: its decision is -1, and it does not count as unknown.",
            },
            "n_invalid": {"type": "integer"},
        }
        example |= {"invalid": [False, False], "n_invalid": 0}
    sets = decider.rejector.sets
    if sets is not None:
        example["sets"] = [[0], []]
        text = f"Classes each sample may belong to, none if it is unknown; {sets}."
        properties["sets"] = {"type": "array", "items": integers, "description": text}
    schema = {
        "type": "object",
        "required": list(properties),
        "properties": properties,
    }
    answers: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "One decision per sample.",
            "content": {
                JSON: {"schema": schema, "example": example},
                NPY: {"schema": {**_BINARY, "description": "The decisions alone."}},
                NPZ: {"schema": _BINARY},
            },
        }
    }
    error = {
        "type": "object",
        "required": ["detail"],
        "properties": {"detail": {"type": "string"}},
    }
    for status, description in ERRORS.items():
        answers[status] = {
            "description": description,
            "content": {JSON: {"schema": error}},
        }
    return answers


def _example(decider: Decider, name: str) -> NDArray[Any]:
    if decider.model is not None:
        return decider.model.example(2)
    widths = decider.rejector.fitted.widths
    width = widths.get("n_classes" if name == "logits" else "n_features") or 3
    rows = np.zeros((2, width))
    rows[0, 0], rows[1] = 8.0, 0.25  # a clear case, and an undecided one
    return rows


def _is_answered(decider: Decider, examples: Mapping[str, NDArray[Any]]) -> bool:
    """Whether the examples are small, and the server takes them."""
    if sum(array.size for array in examples.values()) > _LARGEST_EXAMPLE:
        return False
    arrays = {n: array for n, array in examples.items() if n in decider.needs}
    try:
        decider(BatchRequest(arrays))
    except RequestError:  # a network whose input sizes are not known
        return False
    return True


def _images() -> dict[str, Any]:
    """Describe a single image, and a form with several."""
    files = {"type": "array", "items": _BINARY, "minItems": 1}
    form = {"type": "object", "properties": {"file": files}, "required": ["file"]}
    return {**{key: {"schema": _BINARY} for key in IMAGES}, FORM: {"schema": form}}


def _depth(decider: Decider) -> int:
    return 2 if decider.model is None else len(decider.model.shape)


def _rows(depth: int) -> dict[str, Any]:
    """Describe numbers in nested lists."""
    if not depth:
        return {"type": "number"}
    return {"type": "array", "minItems": 1, "items": _rows(depth - 1)}
