"""A request's body, turned into named arrays."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openset import _check
from openset.serve import _images
from openset.serve._arrays import (
    CLASSES,
    IDS,
    INPUT_STEP,
    NPY_MAGIC,
    TEXTS,
    ZIP_MAGIC,
    from_npy,
    from_npz,
    ids_of,
    texts_of,
)
from openset.serve._errors import RequestError, refuse
from openset.serve._media import BINARY, FORM, IMAGES, JSON, NPY, NPZ, plain_type

_QUERY = ("threshold", "name")
_BARE = "left out unless the body is a .npy file"


@dataclass(frozen=True, eq=False)
class BatchRequest:
    """A parsed request.

    Attributes
    ----------
    arrays
        Arrays by name. Images are separate, as they may have several sizes.
    images
        Each (h, w, 3), if the client sent files; None for a file that is no image.
    threshold
        The threshold of the request, or None.
    ids
        Ids of the samples, or None.
    classes, input_step
        What a file of outputs says of the network they are of; empty if nothing.
    """

    arrays: Mapping[str, NDArray[Any]]
    images: Sequence[NDArray[np.uint8] | None] = ()
    threshold: float | None = None
    ids: NDArray[np.str_] | None = None
    classes: Sequence[str] = ()
    input_step: str = ""


def accepted(header: str) -> str:
    """Return the first media type in an Accept header that we write; JSON if none."""
    kinds = [plain_type(part) for part in header.split(",")]
    return next((kind for kind in kinds if kind in (JSON, NPY, NPZ)), JSON)


def parse(
    body: bytes,
    *,
    content_type: str,
    encoding: str,
    query: Mapping[str, str],
    names: tuple[str, ...],
    takes_images: bool,
    keep: bool,
    max_bytes: int,
) -> BatchRequest:
    """Turn a body into arrays called `names`; a ``.npy`` body is the first of them.

    With `keep`, files that are no images are not refused.
    """
    refuse_encoding(encoding)
    for key in query:
        if key not in _QUERY:
            known = " or ".join(_QUERY)
            refuse(known, name="a query parameter", got=repr(key[:80]))
    kind = plain_type(content_type)
    override = read_threshold(query["threshold"]) if "threshold" in query else None
    if kind == JSON:
        return _from_json(body, names, override, query)
    allowed = (*BINARY, *((*IMAGES, FORM) if takes_images else ()))
    if kind not in allowed:
        rule = f"{JSON}, {' or '.join(allowed)}"
        got = repr(content_type[:80])
        refuse(rule, name="Content-Type", got=got, status=415)
    if kind == FORM or kind in IMAGES:
        _refuse_name(query)
        files = _images.of_form(body, content_type) if kind == FORM else [("", body)]
        ids = np.array([name for name, _ in files]) if kind == FORM else None
        images = _images.decoded(files, keep=keep)
        return BatchRequest({}, images, override, ids)
    if body.startswith(NPY_MAGIC):
        name = query.get("name", names[0])
        if name not in names:
            known = " or ".join(names)
            refuse(known, name="the name of the array", got=repr(name[:80]))
        return BatchRequest({name: from_npy(name, body)}, threshold=override)
    _refuse_name(query)
    if body.startswith(ZIP_MAGIC):
        arrays = from_npz(body, (*names, *TEXTS), max_bytes=max_bytes)
        ids, classes, step = (arrays.pop(name, None) for name in TEXTS)
        return BatchRequest(
            arrays,
            threshold=override,
            ids=_ids(ids, arrays),
            classes=texts_of(CLASSES, classes, 1),
            input_step=texts_of(INPUT_STEP, step, 0),
        )
    msg = (
        f"predict: the body must be .npy or .npz, got {len(body)} bytes of something "
        f"else. Write it with numpy.save or Outputs.save"
    )
    raise RequestError(400, msg)


def refuse_encoding(encoding: str) -> None:
    """Raise for a compressed body."""
    if encoding.strip().lower() not in ("", "identity"):
        refuse(
            "left out, or identity",
            name="Content-Encoding",
            got=repr(encoding[:80]),
            status=415,
            remedy="Send the body as it is, not compressed",
        )


def read_json(body: bytes) -> Any:
    """Parse JSON; a key that an object has twice is refused."""
    try:
        return json.loads(body, object_pairs_hook=_object)
    except RequestError:
        raise
    # RecursionError: the document is nested too deeply.
    except (ValueError, RecursionError) as error:
        msg = f"predict: the body must be JSON, got something else ({error})"
        raise RequestError(400, msg) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):  # json takes the last one, other readers the first
        counts = Counter(key for key, _ in pairs)
        ((twice, _),) = counts.most_common(1)
        refuse("each given once", name="keys", got=f"{twice[:80]!r} twice")
    return found


def _refuse_name(query: Mapping[str, str]) -> None:
    if "name" in query:
        refuse(_BARE, name="name", got=repr(query["name"][:80]))


def _ids(values: Any, arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.str_] | None:
    if values is None:
        return None
    first = next(iter(arrays.values()))
    return ids_of(values, first.shape[0] if first.ndim else 0)


def _from_json(
    body: bytes,
    names: Collection[str],
    override: float | None,
    query: Mapping[str, str],
) -> BatchRequest:
    _refuse_name(query)
    document = read_json(body)
    wanted = f"an object with {' or '.join(names)}"
    if not isinstance(document, dict):
        refuse(wanted, name="the body", got=f"a {type(document).__name__}")
    allowed = (*names, "threshold", IDS)
    for key in document:
        if key not in allowed:
            rule = f"one of {', '.join(allowed)}"
            refuse(rule, name="a key", got=repr(key[:80]))
    arrays = {n: as_array(n, document[n]) for n in names if document.get(n) is not None}
    if not arrays:
        refuse(wanted, name="the body", got="none of it")
    if document.get("threshold") is not None:
        if override is not None:
            rule = "given once, in the body or in the query"
            refuse(rule, name="threshold", got="both")
        override = read_threshold(document["threshold"])
    ids = _ids(document.get(IDS), arrays)
    return BatchRequest(arrays, threshold=override, ids=ids)


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Convert nested lists of numbers to an array."""
    # As objects first: with one string among the numbers NumPy would make all of them
    # strings, each as long as the longest, and a long one would fill the memory.
    cells = np.array(values, dtype=object)
    kinds = set(map(type, cells.ravel()))
    if not kinds:
        refuse("non-empty", name=name, got="no numbers")
    strange = sorted(kind.__name__ for kind in kinds - {int, float})
    if strange:
        ragged = "rows of different lengths"
        got = ragged if list in kinds else f"a {strange[0]} in them"
        remedy = "Write infinities as 1e999 and -1e999" if str in kinds else ""
        refuse("rows of numbers, equally long", name=name, got=got, remedy=remedy)
    try:
        return cells.astype(np.int64 if kinds == {int} else np.float64)
    except OverflowError:
        refuse("numbers of 64 bits", name=name, got="a larger integer")


def read_threshold(value: Any) -> float:
    """Read a threshold; JSON has no infinities, so they are "inf" and "-inf"."""
    if isinstance(value, str):
        try:
            # Python also reads 1_0 as 10, and digits of other scripts.
            value = float(value) if value.isascii() and "_" not in value else value[:80]
        except ValueError:
            value = value[:80]
    elif isinstance(value, int) and not isinstance(value, bool):
        try:
            value = float(value)
        except OverflowError:
            value = "a number beyond 64 bits"
    return _check.threshold("predict", value)
