"""Bad and hostile requests get 4xx, cost little, and the server lives on."""

import http.client
import io
import pickle
import struct
import zipfile
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.serve.conftest import npy, npz
from tests.waiting import PATIENCE

from openset import serve

JSON = {"Content-Type": "application/json"}
GOOD = npy(np.zeros((2, 3), np.float32))


def header(text):
    """Forge a .npy; tests/contract/test_hostile_files.py has more of them."""
    length = struct.pack("<H", len(text))
    return b"\x93NUMPY\1\0" + length + text.encode("latin1") + bytes(64)


def shaped(shape, descr="'<f4'"):
    return header(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n")


def packed(method=zipfile.ZIP_DEFLATED, **members):
    """Return an archive with these contents, whatever they are."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


class Bomb:
    """Leaves a trace if anyone unpickles it."""

    def __reduce__(self):
        return (open, ("unpickled", "w"))


MEMBERS = {
    "a shape of terabytes": shaped("(2000000000, 1000)"),
    "a negative shape": shaped("(-1, -16)"),
    "a shape of truths": shaped("(True, 16)"),
    "texts of no size": shaped("(200000000,)", "'<U0'")[:-64],
    "pickled objects": npy(np.array([Bomb()])),
    "a bare pickle": pickle.dumps(Bomb()),
    "objects in records": shaped("(4,)", "[('a', 'O')]"),
    "complex numbers": npy(np.zeros((2, 3), complex)),
    "texts": npy(np.array([["a", "b"]])),
    "truths": npy(np.zeros((2, 3), bool)),
    "128-bit floats": npy(np.zeros((2, 3), "longdouble")),
    "no dictionary": header("print('hello')"),
    "deep brackets": header("(" * 4000),
    "NaN": npy(np.array([[np.nan, 0, 0]])),
    "a vector": npy(np.zeros(3)),
    "a number": npy(np.float64(1)),
    "a cube": npy(np.zeros((1, 1, 3))),
    "no samples": npy(np.zeros((0, 3))),
    "too few arrays": GOOD,
    "nothing": b"",
    "64 MB": bytes(64 << 20),
}
Z, FEATURES = np.zeros((2, 3)), np.zeros((2, 5))
ARCHIVES = {
    **{name: packed(logits=content) for name, content in MEMBERS.items()},
    "no archive": GOOD,
    "nothing at all": b"",
    "noise": bytes(range(256)) * 9,
    "a damaged archive": npz(logits=np.zeros((2, 3)))[:-20],
    "bzip2": packed(zipfile.ZIP_BZIP2, logits=GOOD),
    "another archive": npz(images=np.zeros(3)),
    "inputs without a network": npz(inputs=Z),
    "an empty archive": npz(),
    "wrong width": npz(logits=np.zeros((2, 4)), features=FEATURES),
    "rows that disagree": npz(logits=Z, features=np.zeros((3, 5))),
    "ids that disagree": npz(logits=Z, features=FEATURES, ids=np.arange(3)),
    "a column of ids": npz(logits=Z, features=FEATURES, ids=np.zeros((2, 1), int)),
    "ids of floats": npz(logits=Z, features=FEATURES, ids=np.zeros(2)),
    "many classes": npz(logits=Z, features=FEATURES, classes=np.array(["a"] * 99)),
    "infinite everything": npz(
        logits=np.full((1, 3), np.inf), features=np.full((1, 5), np.inf)
    ),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_uploads_are_refused(live, name):
    answer = live.post("/predict/npz", content=ARCHIVES[name])
    assert answer.status_code in {400, 413, 422}, answer.text
    assert answer.json()["detail"].startswith(
        ("predict: ", "Rejector", "PostMax", "Ou")
    )
    assert len(answer.text) < 1500
    assert live.get("/healthz").status_code == 200


ROW = '{"logits": [[1, 2, 3]], "features": [[1, 2, 3, 4, 5]]'
TEXTS = {
    "no JSON": '{"logits": [[',
    "no UTF-8": b"\xff\xfe\xfa",
    "nothing": "",
    "a deep nest": "[" * 100_000,
    "a deep list": '{"logits": ' + "[" * 90 + "1" + "]" * 90 + "}",
    "a number too long": '{"logits": [[' + "9" * 9000 + "]]}",
    "a list": "[[1, 2, 3]]",
    "no arrays": '{"threshold": 1}',
    "null": '{"logits": null}',
    "a wrong key": '{"logit": [[1, 2, 3]]}',
    "ragged ids": ROW + ', "ids": [[1], [1, 2]]}',
    "too many ids": ROW + ', "ids": ["a", "b"]}',
    "a long id": ROW + ', "ids": ["' + "a" * 999 + '"]}',
    "inputs without a network": '{"inputs": [[1, 2, 3]]}',
    "texts without a network": '{"inputs": ["a"]}',
    "ragged rows": '{"logits": [[1, 2], [3]]}',
    "texts": '{"logits": [["1", "2", "3"]]}',
    "a million texts": '{"logits": [[' + '"a",' * 200_000 + '"a"]]}',
    "a long text": '{"logits": [1, "' + "x" * 200_000 + '"]}',
    "truths": '{"logits": [[true, false, true]]}',
    "objects": '{"logits": [[{}]]}',
    "holes": '{"logits": [[1, null, 3]]}',
    "empty": '{"logits": [[]]}',
    "a number": '{"logits": 3}',
    "NaN": '{"logits": [[NaN, 1, 2]], "features": [[1, 2, 3, 4, 5]]}',
    "wrong width": '{"logits": [[1, 2, 3]], "features": [[1, 2]]}',
    "a NaN threshold": ROW + ', "threshold": NaN}',
    "a text threshold": ROW + ', "threshold": "1_0"}',
    "a list threshold": ROW + ', "threshold": [1]}',
    "a true threshold": ROW + ', "threshold": true}',
    "2 MB": " " * (2 << 20),
}


@pytest.mark.parametrize("name", TEXTS)
def test_bad_json_is_refused(live, name):
    before = resident(live)
    answer = live.post(content=TEXTS[name], headers=JSON)
    assert answer.status_code in {400, 413, 422}, answer.text
    assert len(answer.text) < 1500
    assert resident(live) - before < 20 * len(TEXTS[name]) + (50 << 20)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/predict/npz?threshold=high", 422),
        ("/predict/npz?threshold=nan", 422),
        ("/predict/images", 422),
        ("/predict/other", 404),
        ("/rejector", 405),
    ],
)
def test_bad_paths_and_queries_are_refused(live, path, status):
    body = npz(logits=Z, features=FEATURES)
    assert live.post(path, content=body).status_code == status


def test_nothing_was_unpickled(tmp_path, monkeypatch, by_logits):
    monkeypatch.chdir(tmp_path)
    client = TestClient(serve.app(by_logits))
    bomb = npy(np.array([Bomb()]))
    for body in (bomb, pickle.dumps(Bomb()), packed(logits=bomb)):
        answer = client.post("/predict/npz", content=body)
        assert answer.status_code in {400, 422}
    assert not list(tmp_path.iterdir())
    pickle.loads(pickle.dumps(Bomb())).close()  # noqa: S301  # the bomb does work
    assert [file.name for file in tmp_path.iterdir()] == ["unpickled"]


def resident(live):
    statm = Path(f"/proc/{live.process.pid}/statm")
    return int(statm.read_text(encoding="utf-8").split()[1]) * 4096


def test_of_a_large_body_nothing_is_kept(live):
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=PATIENCE)
    post = partial(connection.request, "POST", "/predict/npz")
    post(headers={"Content-Length": str(10**9)})  # refused before it is sent
    assert connection.getresponse().status == 413
    connection.close()
    before = resident(live)
    body = (bytes(1 << 20) for _ in range(200))  # sent without listening
    with suppress(ConnectionError):  # reset: there is no other way to say stop
        post(body=body, headers={"Transfer-Encoding": "chunked"}, encode_chunked=True)
    assert resident(live) - before < 50 << 20
    connection.close()
    assert live.get("/healthz").status_code == 200
