"""SIGTERM under load: what was accepted is answered, then the process ends well."""

import http.client
import io
import json
import signal
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
from starlette.testclient import TestClient

from openset import serve
from openset.serve._signals import heeding
from tests.unit.serve.live import serving
from tests.waiting import PATIENCE, wait_until


def batch(n):
    stream = io.BytesIO()
    rng = np.random.default_rng(0)
    np.savez(stream, logits=rng.normal(size=(n, 3)), features=rng.normal(size=(n, 5)))
    return stream.getvalue()


class Caller(threading.Thread):
    """Sends one request after the other until nobody listens any more."""

    def __init__(self, port, n, *, keep):
        super().__init__(daemon=True)
        self.port, self.n, self.keep = port, n, keep
        self.body = batch(n)
        self.answered = 0
        self.lost = []

    def run(self):
        """Send until the connection is refused; what breaks before that is lost."""
        connection, is_fresh = self.connect(), True
        while connection is not None:
            try:
                headers = {"Content-Type": "application/x-npz"}
                if not self.keep:
                    headers["Connection"] = "close"
                connection.request("POST", "/predict", self.body, headers)
                answer = connection.getresponse()
                found = json.loads(answer.read())
            except (OSError, http.client.HTTPException) as error:
                # A connection the server had not accepted when it closed the port is
                # reset. While the port is open, or after an answer, none may be.
                connection.close()
                again = self.connect()
                if again is not None:
                    again.close()
                if not is_fresh or again is not None:
                    self.lost.append(repr(error))
                return
            if answer.status != 200 or len(found["decisions"]) != self.n:
                self.lost.append(f"{answer.status}: {found}")
            self.answered += 1
            is_fresh = connection.sock is None  # closed as announced in the answer
            if is_fresh:
                connection = self.connect()

    def connect(self):
        """Open a connection, or return None."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=PATIENCE
        )
        try:
            connection.connect()
        except ConnectionError:
            connection.close()
            return None  # not accepted, so not lost
        return connection


@pytest.mark.parametrize("keep", [True, False], ids=["keep-alive", "one-shot"])
def test_a_stop_under_load_loses_no_accepted_request(folder, keep):
    with serving(folder) as live:
        callers = [Caller(live.port, n, keep=keep) for n in (1, 1, 100, 20_000)]
        for caller in callers:
            caller.start()
        wait_until(lambda: all(caller.answered >= 5 for caller in callers))
        assert live.stop() == 0
        for caller in callers:
            caller.join()
    assert [caller.lost for caller in callers] == [[], [], [], []]


def test_an_idle_connection_does_not_hold_the_stop_up(folder):
    with serving(folder) as live:
        connection = http.client.HTTPConnection("127.0.0.1", live.port)
        connection.request("GET", "/healthz")
        assert json.loads(connection.getresponse().read())["status"] == "ok"
        assert live.stop() == 0
        connection.close()


def test_a_request_begun_before_the_stop_is_answered_and_is_the_last(folder):
    body = batch(100)
    with serving(folder) as live:
        connection = http.client.HTTPConnection("127.0.0.1", live.port)
        connection.putrequest("POST", "/predict")
        connection.putheader("Content-Type", "application/x-npz")
        connection.putheader("Content-Length", str(len(body)))
        connection.putheader("Expect", "100-continue")
        connection.endheaders()
        # Told to go on, it has begun.
        assert connection.sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        live.process.send_signal(signal.SIGTERM)
        wait_until(lambda: is_refused(live.port))
        connection.send(body)
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.headers["Connection"] == "close"
        assert len(json.loads(answer.read())["decisions"]) == 100
        assert live.process.wait(timeout=PATIENCE) == 0
        connection.close()


def is_refused(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except ConnectionRefusedError:
        return True
    return False


def test_while_stopping_the_server_says_so(by_logits):
    application = serve.app(by_logits)
    client = TestClient(application)
    assert client.get("/healthz").json() == {"status": "ok", "rejector": "1"}
    application.state.stopping = True
    answer = client.get("/healthz")
    assert answer.json() == {"status": "stopping", "rejector": "1"}
    assert answer.status_code == 503
    assert answer.headers["Connection"] == "close"


hang_ups = pytest.mark.skipif(
    not hasattr(signal, "SIGHUP") or signal.getsignal(signal.SIGHUP) == signal.SIG_IGN,
    reason="nobody hears a hang-up here (nohup)",
)


@hang_ups
@pytest.mark.parametrize("workers", [1, 2])
def test_a_hang_up_is_a_stop_like_any_other(folder, workers):
    with serving(folder, "--workers", workers) as live:
        caller = Caller(live.port, 100, keep=True)
        caller.start()
        wait_until(lambda: caller.answered >= 5 or not caller.is_alive())
        live.process.send_signal(signal.SIGHUP)
        assert live.process.wait(timeout=PATIENCE) == 0
        caller.join()
    assert caller.lost == []
    assert caller.answered >= 5


@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGHUP", marks=hang_ups)])
def test_a_signal_is_heeded_as_soon_as_it_says_that_it_serves(folder, name):
    with serving(folder) as live:
        live.process.send_signal(signal.Signals[name])
        assert live.process.wait(timeout=PATIENCE) == 0


@hang_ups
def test_an_ignored_hang_up_stays_ignored():
    """As nohup leaves it."""
    seen = []
    with heeding(lambda number, _: seen.append(number)):
        signal.raise_signal(signal.SIGHUP)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with heeding(lambda number, _: seen.append(number)):
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert seen == [signal.SIGHUP, signal.SIGTERM]


def test_a_taken_port_and_a_bad_folder_are_errors_in_one_line(folder, tmp_path):
    with serving(folder) as live:
        for arguments, words in (
            ([str(folder), "--port", str(live.port)], "Address already in use"),
            ([str(tmp_path)], "is not a rejector"),
            ([str(folder), "--model", "no.onnx"], "no such file: no.onnx"),
            ([str(folder), "--max-megabytes", "inf"], "--max-megabytes must be"),
            ([str(folder), "--stop-seconds", "inf"], "'--stop-seconds': Input"),
        ):
            done = subprocess.run(  # noqa: S603  # our own command
                [
                    sys.executable,
                    "-c",
                    "from openset.cli import main; main()",
                    "serve",
                    *arguments,
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 2
            assert words in " ".join(done.stderr.split())  # wrapped at 80 columns
            assert "Traceback" not in done.stderr
