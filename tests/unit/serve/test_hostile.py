"""Bad and hostile requests get 4xx in words, and the server lives on."""

import asyncio
import http.client
import io
import json
import pickle
import socket
import struct
import zipfile
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

from openset import serve
from tests.unit.serve.test_predict import npy, npz
from tests.waiting import PATIENCE

OCTETS = {"Content-Type": "application/octet-stream"}
JSON = {"Content-Type": "application/json"}
GOOD = npy(np.zeros((2, 3), np.float32))


def header(text, *, version=(1, 0), payload=b"\0" * 64):
    """Forge a .npy."""
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text.encode("latin1") + payload


def shaped(shape, descr="'<f4'"):
    return header(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n")


class Bomb:
    """Leaves a trace if anyone unpickles it."""

    def __reduce__(self):
        return (open, ("unpickled", "w"))


def pickled():
    stream = io.BytesIO()
    np.save(stream, np.array([Bomb()], dtype=object), allow_pickle=True)
    return stream.getvalue()


def bomb_zip():
    """Make a kilobyte of archive that unpacks to 64 MB."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logits.npy", bytes(64 << 20))
    return stream.getvalue()


def lying_zip():
    """Make an archive whose member is longer than it says."""
    good = bytearray(npz(logits=np.zeros((4, 3))))
    at = good.rindex(b"PK\x01\x02")
    good[at + 24 : at + 28] = struct.pack("<I", 40)
    return bytes(good)


def locked_zip():
    good = bytearray(npz(logits=np.zeros((4, 3))))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        good[good.index(mark) + offset] |= 1  # says that it is encrypted
    return bytes(good)


UPLOADS = {
    "a shape of terabytes": (shaped("(2000000000, 1000)"), 400, "as many bytes as"),
    "a shape beyond 64 bits": (shaped(f"({10**30}, 3)"), 400, "as many bytes as"),
    "a shape of zero times all": (
        shaped(f"(0, {10**30})")[:-64],
        400,
        "must be as large as its header says",
    ),
    "a negative shape": (shaped("(-1, -16)"), 400, "a damaged one"),
    "a shape of truths": (shaped("(True, 16)"), 400, "a damaged one"),
    "a hundred sizes": (shaped("(" + "1," * 99 + ")"), 400, "as many bytes as"),
    "pickled objects": (pickled(), 400, "pickled objects, which are never loaded"),
    "a bare pickle": (pickle.dumps(Bomb()), 400, "must be .npy or .npz"),
    "records": (shaped("(16,)", "[('a', '<f4')]"), 400, "got dtype [('a'"),
    "objects in records": (shaped("(4,)", "[('a', 'O')]"), 400, "pickled objects"),
    "complex numbers": (npy(np.zeros((2, 3), complex)), 400, "dtype complex128"),
    "texts": (npy(np.array([["a", "b"]])), 422, "dtype <U1"),
    "truths": (npy(np.zeros((2, 3), bool)), 422, "dtype bool"),
    "128-bit floats": (npy(np.zeros((2, 3), "longdouble")), 422, "at most 64 bits"),
    "a dtype of no kind": (shaped("(4,)", "'<q99'"), 400, "'<q99'"),
    "dates": (npy(np.zeros((2, 3), "M8[s]")), 400, "datetime64"),
    "a cut file": (GOOD[:-5], 400, "as many bytes as its header says"),
    "a tail": (GOOD + b"x", 400, "as many bytes as its header says"),
    "a cut header": (GOOD[:40], 400, "a damaged one"),
    "magic alone": (GOOD[:6], 400, "a damaged one"),
    "no dictionary": (header("print('hello')"), 400, "a damaged one"),
    "deep brackets": (header("(" * 4000), 400, "a damaged one"),
    "a long header": (header("{}" + " " * 50_000), 400, "a damaged one"),
    "a header of gigabytes": (
        header("{}", version=(2, 0))[:8] + b"\xff" * 9,
        400,
        "a damaged one",
    ),
    "version 3": (header("{}", version=(3, 0)), 400, "version 1.0 or 2.0"),
    "version 9": (header("{}", version=(9, 9)), 400, "version 1.0 or 2.0"),
    "NaN": (npy(np.array([[np.nan, 0, 0]])), 422, "logits must be free of NaN"),
    "wrong width": (
        npz(logits=np.zeros((2, 4)), features=np.zeros((2, 5))),
        422,
        "n_classes must be 3, as in fit or calibration",
    ),
    "a vector": (npy(np.zeros(3)), 422, "non-empty array of 2 dimensions"),
    "a number": (npy(np.float64(1)), 422, "non-empty array of 2 dimensions"),
    "a cube": (npy(np.zeros((1, 1, 3))), 422, "non-empty array of 2 dimensions"),
    "no samples": (npy(np.zeros((0, 3))), 422, "non-empty, got shape (0, 3)"),
    "nothing": (b"", 400, "must be .npy or .npz, got 0 bytes"),
    "noise": (bytes(range(256)) * 9, 400, "must be .npy or .npz"),
    "a zip bomb": (bomb_zip(), 413, "the unpacked archive must be at most 1048576"),
    "a lying archive": (lying_zip(), 400, "a .npz archive, got a damaged one"),
    "a locked archive": (locked_zip(), 400, "a .npz archive, got a damaged one"),
    "a cut archive": (npz(logits=np.zeros((2, 3)))[:-9], 400, "a damaged one"),
    "another archive": (npz(images=np.zeros(3)), 422, "got images"),
    "an empty archive": (npz(), 422, "got nothing"),
    "rows that disagree": (
        npz(logits=np.zeros((2, 3)), features=np.zeros((3, 5))),
        422,
        "logits and features must have the same length, got 2, 3",
    ),
    "too few arrays": (GOOD, 422, "PostMax.score: outputs must have features"),
    "infinite everything": (
        npz(logits=np.full((1, 3), np.inf), features=np.full((1, 5), np.inf)),
        422,
        "logits must be largest for one class, got several +inf",
    ),
}


@pytest.mark.parametrize("name", UPLOADS)
def test_hostile_uploads_are_refused_in_words(live, name):
    body, status, words = UPLOADS[name]
    answer = live.post(content=body, headers=OCTETS)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]
    assert live.get("/healthz").status_code == 200


TEXTS = {
    "no JSON": ('{"logits": [[', 400, "the body must be JSON"),
    "no UTF-8": (b"\xff\xfe\xfa", 400, "the body must be JSON"),
    "nothing": ("", 400, "the body must be JSON"),
    "a deep nest": ("[" * 100_000, 400, "the body must be JSON"),
    "a deep list": (
        '{"logits": ' + "[" * 90 + "1" + "]" * 90 + "}",
        422,
        "rows of num",
    ),
    "a number too long": ('{"logits": [[' + "9" * 9000 + "]]}", 400, "must be JSON"),
    "a number too large": (
        '{"logits": [[' + "9" * 90 + "]]}",
        422,
        "numbers of 64 bits",
    ),
    "a list": ("[[1, 2, 3]]", 422, "must be an object with logits or features"),
    "no arrays": ('{"threshold": 1}', 422, "must be an object with logits or features"),
    "null": ('{"logits": null}', 422, "must be an object with logits or features"),
    "a wrong key": (
        '{"logit": [[1, 2, 3]]}',
        422,
        "one of logits, features, threshold",
    ),
    "a key twice": (
        '{"logits": [[1, 2, 3]], "logits": [[3, 2, 1]], "features": [[1, 2, 3, 4, 5]]}',
        422,
        "keys must be each given once, got 'logits' twice",
    ),
    "ragged ids": (
        '{"logits": [[1, 2, 3]], "features": [[1, 2, 3, 4, 5]], "ids": [[1], [1, 2]]}',
        422,
        "ids must be 1 texts of at most 256 characters, or integers, got lists",
    ),
    "a threshold with a line": (
        '{"logits": [[1]], "threshold": "1_0"}',
        422,
        "got '1_0'",
    ),
    "a threshold of other digits": (
        '{"logits": [[1]], "threshold": "\u0661"}',
        422,
        "threshold must be a number",
    ),
    "ragged rows": ('{"logits": [[1, 2], [3]]}', 422, "rows of different lengths"),
    "texts": ('{"logits": [["1", "2", "3"]]}', 422, "a str in them"),
    "a long text": ('{"logits": [1, "' + "x" * 200_000 + '"]}', 422, "a str in them"),
    "truths": ('{"logits": [[true, false, true]]}', 422, "a bool in them"),
    "objects": ('{"logits": [[{}]]}', 422, "a dict in them"),
    "holes": ('{"logits": [[1, null, 3]]}', 422, "a NoneType in them"),
    "empty": ('{"logits": [[]]}', 422, "logits must be non-empty"),
    "a number": ('{"logits": 3}', 422, "non-empty array of 2 dimensions"),
    "NaN": (
        '{"logits": [[NaN, 1, 2]], "features": [[1, 2, 3, 4, 5]]}',
        422,
        "free of NaN",
    ),
    "wrong width": (
        '{"logits": [[1, 2, 3]], "features": [[1, 2]]}',
        422,
        "n_features must be 5",
    ),
    "a NaN threshold": (
        '{"logits": [[1, 2, 3]], "threshold": NaN}',
        422,
        "threshold must be a number that is not NaN",
    ),
    "a text threshold": ('{"logits": [[1]], "threshold": "high"}', 422, "got 'high'"),
    "a list threshold": ('{"logits": [[1]], "threshold": [1]}', 422, "got [1]"),
    "a true threshold": ('{"logits": [[1]], "threshold": true}', 422, "got True"),
    "a huge threshold": (
        '{"logits": [[1]], "threshold": ' + "9" * 400 + "}",
        422,
        "beyond 64 bits",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_bad_json_is_refused_in_words(live, name):
    body, status, words = TEXTS[name]
    answer = live.post(content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]


def test_nothing_was_unpickled(tmp_path, monkeypatch, by_logits):
    monkeypatch.chdir(tmp_path)
    client = TestClient(serve.app(by_logits))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as members:
        members.writestr("logits.npy", pickled())
    for body in (pickled(), pickle.dumps(Bomb()), archive.getvalue()):
        answer = client.post("/predict", content=body, headers=OCTETS)
        assert answer.status_code in {400, 422}
    assert not list(tmp_path.iterdir())
    pickle.loads(pickle.dumps(Bomb())).close()  # noqa: S301  # the bomb does work
    assert [file.name for file in tmp_path.iterdir()] == ["unpickled"]


@pytest.mark.parametrize(
    ("path", "headers", "status", "words"),
    [
        ("/predict", {"Content-Type": "text/plain"}, 415, "Content-Type must be"),
        ("/predict", {}, 415, "Content-Type must be application/json"),
        ("/predict", {**OCTETS, "Content-Encoding": "gzip"}, 415, "got 'gzip'. Send"),
        ("/predict", {**JSON, "Content-Encoding": "br"}, 415, "Content-Encoding must"),
        ("/predict", {**JSON, "Content-Encoding": "Identity"}, 400, "must be JSON"),
        ("/predict?name=labels", OCTETS, 422, "must be logits or features"),
        ("/predict?threshold=high", OCTETS, 422, "got 'high'"),
        ("/predict?threshold=nan", OCTETS, 422, "that is not NaN"),
        ("/predict?cut=1", OCTETS, 422, "must be threshold or name, got 'cut'"),
    ],
)
def test_bad_headers_and_queries_are_refused(live, path, headers, status, words):
    answer = live.post(path, content=GOOD, headers=headers)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]


def test_what_means_nothing_is_refused(by_logits):
    client = TestClient(serve.app(by_logits))
    body = {"logits": [[1.0, 2.0, 3.0]]}
    twice = client.post("/predict?threshold=1", json={**body, "threshold": 2})
    assert twice.status_code == 422
    assert "threshold must be given once" in twice.json()["detail"]
    archive = npz(logits=np.zeros((2, 3)))
    for answer in (
        client.post("/predict?name=logits", json=body),
        client.post("/predict?name=logits", content=archive, headers=OCTETS),
    ):
        assert answer.status_code == 422
        assert "name must be left out" in answer.json()["detail"]
    assert client.get("/predict").status_code == 405


def pieces(live, path="/predict", *, headers):
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=PATIENCE)
    connection.putrequest("POST", path)
    for name, value in {**OCTETS, **headers}.items():
        connection.putheader(name, value)
    connection.endheaders()
    return connection


def test_a_gigabyte_is_refused_before_it_is_sent(live):
    connection = pieces(live, headers={"Content-Length": str(10**9)})
    answer = connection.getresponse()
    assert answer.status == 413
    assert (
        "at most 1048576 bytes, got 1000000000" in json.loads(answer.read())["detail"]
    )
    connection.close()


@pytest.mark.parametrize("length", ["declared", "chunked"])
def test_a_gigabyte_that_is_sent_all_the_same_is_cut_off_early(live, length):
    """The client does not listen while it sends; none of it is kept."""
    chunk = bytes(1 << 20)
    headers = {"Content-Length": str(1 << 30)}
    if length == "chunked":
        headers, chunk = {"Transfer-Encoding": "chunked"}, b"100000\r\n%b\r\n" % chunk
    connection = pieces(live, headers=headers)
    connection.sock.settimeout(PATIENCE)
    before, sent = resident(live), 0
    with suppress(ConnectionError):  # reset: there is no other way to say stop
        while sent < 1 << 10:
            connection.send(chunk)
            sent += 1
    assert sent < 100
    assert resident(live) - before < 30 << 20
    answer = connection.getresponse()  # it was sent before, and is still to be read
    assert answer.status == 413
    assert "at most 1048576 bytes" in json.loads(answer.read())["detail"]
    connection.close()
    assert live.get("/healthz").status_code == 200


def test_a_body_a_little_too_long_costs_no_connection(live):
    connection = pieces(live, headers={"Content-Length": str(2 << 20)})
    connection.send(bytes(2 << 20))
    assert connection.getresponse().read().startswith(b'{"detail":"predict: the body')
    connection.request("GET", "/healthz")
    assert json.loads(connection.getresponse().read())["status"] == "ok"
    connection.close()


def resident(live):
    statm = Path(f"/proc/{live.process.pid}/statm")
    return int(statm.read_text(encoding="utf-8").split()[1]) * 4096


def test_a_body_that_does_not_come_is_given_up(by_logits):
    arrived, sent = [], []

    async def stalls():
        if arrived:
            await asyncio.Event().wait()  # for ever
        arrived.append(b"x")
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/predict",
        "raw_path": b"/predict",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    application = serve.app(by_logits, body_seconds=0.05)
    asyncio.run(application(scope, stalls, send))
    assert sent[0]["status"] == 408
    assert b"must arrive within 0.05 seconds, plus one for every" in sent[1]["body"]


CHUNKED = b"POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("start", "line"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n", b"X: %b\r\n"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: ", b"%b"),
        (CHUNKED + b"0\r\n", b"X: %b\r\n"),
    ],
    ids=["many", "one long", "trailers"],
)
def test_headers_without_end_are_cut_off(live, start, line):
    before, sent = resident(live), 0
    with socket.create_connection(
        ("127.0.0.1", live.port), timeout=PATIENCE
    ) as connection:
        connection.sendall(start)
        with suppress(ConnectionError):  # reset: there is no other way to say stop
            while sent < 100:
                connection.sendall(line % (b"a" * (1 << 20)))
                sent += 1
        assert sent < 50
        with suppress(ConnectionError):
            assert connection.recv(1000).startswith(b"HTTP/1.1 400 Bad Request")
    assert resident(live) - before < 30 << 20
    assert live.get("/healthz").status_code == 200


def test_headers_of_some_length_are_fine(live):
    many = {f"X-{i}": "a" * 1000 for i in range(60)}
    for _ in range(5):  # on connections of their own, and on one
        assert live.get("/healthz", headers=many).status_code == 200
    with httpx.Client(base_url=live.url, headers=many, timeout=PATIENCE) as client:
        assert {client.get("/healthz").status_code for _ in range(5)} == {200}


@pytest.mark.parametrize(
    "words",
    [
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
    ],
    ids=["GET", "POST"],
)
def test_who_asks_on_and_does_not_listen_is_not_kept_in_memory(live, words):
    before = resident(live)
    many = words * 10_000
    with socket.create_connection(("127.0.0.1", live.port)) as connection:
        # Soon the server does not listen either: stop sending then. How long this
        # waits decides how much is sent, not what the server may keep of it.
        connection.settimeout(0.5)
        with suppress(TimeoutError):
            for _ in range(100):
                connection.sendall(many)
        # A million questions and their answers would take hundreds of MB.
        assert resident(live) - before < 64 << 20
    assert live.get("/healthz").status_code == 200


def test_clients_that_leave_or_talk_nonsense_do_no_harm(live):
    for words in (
        b"POST /predict HTTP/1.1\r\nContent-Length: 100\r\n\r\nhalf",
        b"\0\1",
    ):
        with socket.create_connection(("127.0.0.1", live.port)) as connection:
            connection.sendall(words)
    assert live.get("/healthz").status_code == 200
