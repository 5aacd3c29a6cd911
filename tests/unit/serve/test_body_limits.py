"""Large bodies, their limits, and their neighbours on a connection."""

import http.client
import json
import socket
from itertools import pairwise

import numpy as np
import pytest
from starlette.testclient import TestClient

from openset import Outputs, serve
from tests.unit.serve.live import serving
from tests.unit.serve.test_predict import npy, npz
from tests.waiting import PATIENCE, wait_until

N = 20_000  # samples: some hundred kilobytes, several reads of a socket
JSON = {"Content-Type": "application/json"}
NPY = {"Content-Type": "application/x-npy"}


@pytest.fixture(scope="module")
def by_msp(logits_folder):
    """Serve; requests may hold two megabytes together."""
    limits = ("--max-megabytes", 1, "--max-megabytes-in-flight", 2)
    with serving(logits_folder, *limits) as server:
        yield server


@pytest.fixture(scope="module")
def logits():
    return np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32)


def request(body, *lines):
    """Write a request as it goes over the wire."""
    head = ["POST /predict HTTP/1.1", "Host: x", *lines, f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "", ""]).encode() + body


def answers(connection, n):
    """Read answers one after the other."""
    found = []
    with connection.makefile("rb") as stream:
        for _ in range(n):
            status = stream.readline()
            headers = http.client.parse_headers(stream)
            size = int(headers["Content-Length"])
            found.append((status, stream.read(size)))
    return found


@pytest.mark.parametrize("order", ["C", "F"])
def test_large_bodies_get_what_predict_says(by_msp, by_logits, logits, order):
    expected = by_logits.predict(Outputs(logits=logits)).tolist()
    array = np.asarray(logits, order=order)
    # Of two arrays in an archive one begins at an odd place.
    features = np.zeros((N, 5), np.int8)
    for body in (npy(array), npz(logits=array), npz(features=features, logits=array)):
        answer = by_msp.post(
            content=body, headers={"Content-Type": "application/octet-stream"}
        )
        assert answer.json()["decisions"] == expected


def test_answers_come_as_npy_or_npz_if_asked_for(by_msp, by_logits, logits, tmp_path):
    decided = by_logits.decide(Outputs(logits=logits))
    decisions, scores = decided.labels, decided
    accept = {**NPY, "Accept": "text/html, application/x-npy;q=0.9, */*"}
    answer = by_msp.post(content=npy(logits), headers=accept)
    assert answer.headers["Content-Type"] == "application/x-npy"
    assert answer.content == npy(decisions)
    accept = {**NPY, "Accept": "application/json, application/x-npy;q=0.1"}
    answer = by_msp.post(content=npy(logits), headers=accept)
    assert answer.headers["Content-Type"] == "application/json"
    accept = {**NPY, "Accept": "application/x-npz"}
    answer = by_msp.post("/predict?threshold=2", content=npy(logits), headers=accept)
    (tmp_path / "answer.npz").write_bytes(answer.content)
    with np.load(tmp_path / "answer.npz") as found:
        assert (found["decisions"] == scores.decided(2)).all()
        assert (found["known"] == scores.known).all()
        assert (found["predicted"] == scores.predicted).all()
        assert found["threshold"] == 2


def test_requests_behind_a_large_one_on_its_connection_are_answered(by_msp, logits):
    large, small = npy(logits), b'{"logits": [[9, 0, 0]]}'
    kinds = [f"{name}: {value}" for name, value in NPY.items()]
    texts = [f"{name}: {value}" for name, value in JSON.items()]
    sent = [
        request(large, *kinds),
        request(small, *texts),
        request(large, *kinds),
        request(large, *kinds),  # pipelined: the answer before is not yet written
        request(small, *texts),
    ]
    with socket.create_connection(
        ("127.0.0.1", by_msp.port), timeout=PATIENCE
    ) as connection:
        connection.sendall(b"".join(sent))
        found = answers(connection, len(sent))
    assert [status for status, _ in found] == [b"HTTP/1.1 200 OK\r\n"] * 5
    assert found[0] == found[2] == found[3]
    assert found[1] == found[4]


@pytest.mark.parametrize("size", [1, 1000, 70_000])
def test_a_large_body_in_pieces_of_any_size_is_put_together(by_msp, logits, size):
    whole = request(npy(logits), "Content-Type: application/x-npy")
    with socket.create_connection(
        ("127.0.0.1", by_msp.port), timeout=PATIENCE
    ) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, 20 * size, size):
            connection.sendall(whole[start : start + size])
        connection.sendall(whole[20 * size :])
        found = answers(connection, 1)
    expected = by_msp.post(content=npy(logits), headers=NPY)
    assert found == [(b"HTTP/1.1 200 OK\r\n", expected.content)]


def test_who_asks_before_sending_is_told_to_go_on(by_msp, logits):
    head = request(b"", "Content-Type: application/x-npy", "Expect: 100-continue")
    body = npy(logits)
    head = head.replace(b"Content-Length: 0", b"Content-Length: %d" % len(body))
    with socket.create_connection(
        ("127.0.0.1", by_msp.port), timeout=PATIENCE
    ) as connection:
        connection.sendall(head)
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert answers(connection, 1)[0][0] == b"HTTP/1.1 200 OK\r\n"


def test_more_in_flight_than_allowed_is_put_off_until_others_leave(by_msp, logits):
    whole = request(bytes(2**20 - 100), "Content-Type: application/x-npy")

    def status():
        return by_msp.post(content=npy(logits), headers=NPY)

    waiting = [socket.create_connection(("127.0.0.1", by_msp.port)) for _ in range(2)]
    try:
        for one in waiting:
            one.sendall(whole[:-1])  # all but a byte
        wait_until(lambda: status().status_code == 503)
        answer = status()
        assert answer.headers["Retry-After"] == "1"
        assert "together must be at most 2097152 bytes" in answer.json()["detail"]
        chunks = iter([npy(logits)])
        answer = by_msp.post(content=chunks, headers=NPY)  # of unknown length
        assert answer.status_code == 503
    finally:
        for connection in waiting:
            connection.close()
    # Who left holds nothing any more, once the server has noticed.
    wait_until(lambda: status().is_success)


def test_what_is_declared_and_not_sent_takes_no_room(by_msp, logits):
    """Eight clients declared 32 MB, sent nothing, and all others got 503."""
    lines = ("Content-Type: application/x-npy", "Expect: 100-continue")
    head = request(bytes(1_000_000), *lines)[:-1_000_000]
    waiting = []
    try:
        for _ in range(8):
            waiting.append(socket.create_connection(("127.0.0.1", by_msp.port)))
            waiting[-1].sendall(head)
            # Told to go on, the server waits for its body.
            assert waiting[-1].recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert by_msp.post(content=npy(logits), headers=NPY).status_code == 200
    finally:
        for connection in waiting:
            connection.close()


def test_what_is_held_is_released_whatever_happens(by_logits, logits):
    application = serve.app(by_logits)
    client = TestClient(application)
    for body in (npy(logits), npy(logits)[:-1], b"", b"no array"):
        client.post("/predict", content=body, headers=NPY)
        client.post("/predict", content=iter([body]), headers=NPY)
    assert application.state.limits.held == 0


OFFERS = [
    ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"),
    ("Connection: keep-alive, Upgrade", "Upgrade: websocket"),
]


@pytest.mark.parametrize("offer", OFFERS, ids=["h2c", "websocket"])
@pytest.mark.parametrize("n", [2, N], ids=["small", "large"])
def test_an_offer_to_change_the_protocol_is_ignored(
    by_msp, by_logits, logits, n, offer
):
    """Java's client and curl --http2 make one with every first request."""
    some = logits[:n]
    expected = by_logits.predict(Outputs(logits=some)).tolist()
    sent = request(npy(some), "Content-Type: application/x-npy", *offer)
    plain = request(npy(some), "Content-Type: application/x-npy")
    for cuts in ([], [20], [len(sent) - 30]):  # in one piece, or in two
        with socket.create_connection(("127.0.0.1", by_msp.port)) as connection:
            connection.settimeout(PATIENCE)
            for start, end in pairwise([0, *cuts, len(sent)]):
                connection.sendall(sent[start:end])
            connection.sendall(plain)  # the connection is as good as before
            for status, body in answers(connection, 2):
                assert status == b"HTTP/1.1 200 OK\r\n"
                assert json.loads(body)["decisions"] == expected


def test_an_offer_with_a_body_in_chunks_is_ignored(by_msp):
    head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += "\r\n".join([*OFFERS[0], "Transfer-Encoding: chunked", "", ""]).encode()
    body = b'{"logits": [[1.0, 2.0, 3.0]]}'
    sent = head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    with socket.create_connection(("127.0.0.1", by_msp.port)) as connection:
        connection.settimeout(PATIENCE)
        connection.sendall(sent)
        ((status, _),) = answers(connection, 1)
        assert status == b"HTTP/1.1 200 OK\r\n"


def test_an_offer_without_a_body_is_ignored(by_msp):
    sent = ["GET /healthz HTTP/1.1", "Host: x", *OFFERS[0], "", ""]
    with socket.create_connection(("127.0.0.1", by_msp.port)) as connection:
        connection.settimeout(PATIENCE)
        connection.sendall("\r\n".join(sent).encode())
        ((status, _),) = answers(connection, 1)
        assert status == b"HTTP/1.1 200 OK\r\n"


def test_json_has_a_small_limit_of_its_own(by_logits, logits_folder):
    rows = np.zeros((100_000, 3)).tolist()
    answers = [TestClient(serve.app(by_logits)).post("/predict", json={"logits": rows})]
    with serving(logits_folder) as live:
        answers.append(live.post(json={"logits": rows}))
        chunks = iter([json.dumps({"logits": rows}).encode()])
        answers.append(live.post(content=chunks, headers=JSON))
        octets = {"Content-Type": "application/octet-stream"}
        large = npz(logits=np.array(rows))
        assert live.post(content=large, headers=octets).status_code == 200
    for answer in answers:
        assert answer.status_code == 413
        found = answer.json()["detail"]
        assert "a body of JSON must be at most 1048576 bytes" in found
        assert "Send the arrays as .npz" in found
    larger = TestClient(serve.app(by_logits, max_json_bytes=4 << 20))
    assert larger.post("/predict", json={"logits": rows}).status_code == 200
