"""Requests to a server, good and bad, each with what must come back."""

import io
import json
import re
import socket
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from openset import Outputs, Rejector, detectors

N_CLASSES = 10
JSON, NPZ = "application/json", "application/x-npz"
CLOSE = "Connection: close\r\n"


def split(seed: int, n: int) -> Outputs:
    """Make outputs."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, N_CLASSES, n)
    logits = rng.standard_normal((n, N_CLASSES))
    logits[np.arange(n), labels] += 3
    return Outputs(logits=logits, labels=labels)


def calibrated() -> Rejector:
    """Make a rejector with prediction sets."""
    known = split(1, 2000)
    fitted = detectors.MSP().fit(known)
    options: dict[str, Any] = {"objective": "at_tpr", "tpr": 0.9, "sets": "lac"}
    return Rejector.calibrate(fitted, known=known, **options)


@dataclass(frozen=True)
class Request:
    """Bytes to send, and what must come back."""

    content: bytes
    is_right: Callable[[int, bytes], bool]


def posted(
    path: str, kind: str, body: bytes, *, length: int | None = None, more: str = ""
) -> bytes:
    """Write a request."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n{more}"
        f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
    )
    return head.encode() + body


def packed(**arrays: Any) -> bytes:
    """Write a ``.npz``."""
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def good_requests(rejector: Rejector) -> list[Request]:
    """Make requests of three kinds, with the answers `rejector` gives here."""
    found = []
    for seed in range(300):
        kind = ("json", "npz", "v2")[seed % 3]
        new = split(100 + seed, 64 if kind == "npz" else 1)
        logits = np.asarray(new.logits)
        decided = rejector.decide(Outputs(logits=logits))
        labels = decided.labels.tolist()
        assert labels == rejector.predict(Outputs(logits=logits)).tolist()
        known = decided.known.tolist()
        if kind == "v2":
            tensor = {"name": "logits", "datatype": "FP64", "shape": [1, N_CLASSES]}
            document = {"inputs": [{**tensor, "data": logits.tolist()}]}
            body = json.dumps(document).encode()
            content = posted("/v2/models/openset/infer", JSON, body)
            wanted: dict[str, Any] = {
                "decision": labels,
                "known": known,
                "set": decided.sets.ravel().tolist(),
            }
        else:
            is_json = kind == "json"
            rows = json.dumps({"logits": logits.tolist()}).encode()
            body = rows if is_json else packed(logits=logits)
            content = posted("/predict", JSON if is_json else NPZ, body)
            wanted = {
                "decisions": labels,
                "names": [rejector.name_of(one) for one in labels],
                "predicted": decided.predicted.tolist(),
                "known": known,
                "threshold": rejector.threshold.value,
                "n_unknown": decided.n_rejected,
                "sets": decided.set_classes,
            }
        found.append(Request(content, _equals(wanted)))
    return found


def _equals(wanted: dict[str, Any]) -> Callable[[int, bytes], bool]:
    def check(status: int, body: bytes) -> bool:
        if status != 200:
            return False
        got = json.loads(body)
        if "outputs" in got:
            tensors = {one["name"]: one["data"] for one in got["outputs"]}
            got = {name: tensors[name] for name in wanted}
        return bool(got == wanted)

    return check


def bad_requests() -> list[Request]:
    """Make requests that must be refused, each with its status."""
    rows = packed(logits=np.zeros((4, N_CLASSES)))
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("logits.npy", bytes(50_000_000))
    made = [
        (400, posted("/predict", JSON, b'{"logits": [[1, 2')),
        (400, posted("/predict", JSON, b"[" * 100_000)),
        (400, posted("/predict", NPZ, rows[:-30])),
        (400, posted("/predict", NPZ, b"nothing NumPy wrote")),
        (413, posted("/predict", NPZ, bomb.getvalue())),
        # The rest of the body will not come, so nothing else can on this connection.
        (413, posted("/predict", JSON, b"", length=10**12, more=CLOSE)),
        (415, posted("/predict", "text/plain", b"1 2 3")),
        (422, posted("/predict", JSON, b'{"logits": [[1, 2, 3]]}')),
        (422, posted("/predict", NPZ, packed(logits=np.full((2, N_CLASSES), np.nan)))),
        (422, posted("/v2/models/openset/infer", JSON, b'{"inputs": [{}]}')),
        (404, posted("/nothing", JSON, b"{}")),
        (400, b"\x16\x03\x01\x02\x00 this is no HTTP\r\n\r\n"),
    ]
    return [Request(content, _has(status)) for status, content in made]


def _has(wanted: int) -> Callable[[int, bytes], bool]:
    return lambda status, _: status == wanted


class BrokenError(Exception):
    """The connection ended before the answer did."""


def answer(connection: socket.socket) -> tuple[int, bytes, bool]:
    """Read status and body of an answer, and whether the connection stays open."""
    got = b""
    while (end := got.find(b"\r\n\r\n")) < 0:
        part = connection.recv(1 << 16)
        if not part:
            raise BrokenError
        got += part
    head = got[:end].lower()
    length = re.search(rb"content-length: *(\d+)", head)
    body = got[end + 4 :]
    while len(body) < int(length[1] if length else 0):
        part = connection.recv(1 << 16)
        if not part:
            raise BrokenError
        body += part
    return int(head.split()[1]), body, b"connection: close" not in head


STALLED = {
    "silent": b"",
    "half of the headers": b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Ty",
    "half of a body": posted("/predict", JSON, b'{"logits": [[', length=500),
}
"""What is sent on connections that then stall, by kind."""
