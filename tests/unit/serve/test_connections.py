"""Clients that hold connections: silent ones, half-sent headers, too many of them."""

import asyncio
import http.client
import resource
import socket
import sys
from contextlib import suppress

import pytest

from openset import Rejector, serve
from openset.serve import _app, _connections
from openset.serve._connections import Connection, Connections, most_connections
from tests.unit.serve.live import serving
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="counts files")


@pytest.fixture(scope="module")
def few(folder):
    """Serve; close silent connections soon, and hold at most twenty."""
    with serving(folder, "--idle-seconds", 0.5, "--max-connections", 20) as live:
        yield live


def connect(live):
    return socket.create_connection(("127.0.0.1", live.port), timeout=PATIENCE)


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /heal",
    ],
    ids=["silent", "half headers", "kept alive", "half headers of a second"],
)
def test_who_sends_no_request_is_disconnected(few, words):
    with connect(few) as connection:
        connection.sendall(words)
        n_answers = 0
        while part := connection.recv(65536):  # until the server closes it
            n_answers += part.count(b"HTTP/1.1 200 OK")
    assert n_answers == words.count(b"\r\n\r\n")
    assert few.get("/healthz").status_code == 200


@pytest.mark.parametrize("words", [b"", b"GET / HTTP/1.1\r\nX: "], ids=["idle", "half"])
def test_silent_connections_give_way_to_requests(folder, words):
    """More than it holds: the one that was silent longest is closed for a new one."""
    options = ("--idle-seconds", PATIENCE, "--max-connections", 20)
    with serving(folder, *options) as live:
        silent = []
        try:
            for _ in range(60):
                silent.append(connect(live))
                silent[-1].sendall(words)
            for _ in range(3):
                assert live.get("/healthz").status_code == 200
            first = silent[0]
            first.settimeout(PATIENCE)
            with suppress(ConnectionError):  # or an end without one: it is closed
                assert first.recv(100) == b""
        finally:
            for one in silent:
                one.close()


def test_uploads_that_do_not_come_give_way_too(folder):
    head = (
        b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-npz\r\n"
        b"Expect: 100-continue\r\nContent-Length: 33000000\r\n\r\n"
    )
    with serving(folder, "--max-connections", 20) as live:
        slow = []
        try:
            for _ in range(40):
                slow.append(connect(live))
                slow[-1].sendall(head)
                assert slow[-1].recv(100).startswith(b"HTTP/1.1 100 Continue")
                assert live.get("/healthz").status_code == 200
        finally:
            for one in slow:
                one.close()


def test_at_the_file_limit_of_the_shell_it_answers_and_says_nothing(folder):
    """1,100 silent sockets stopped every answer, and the log grew by megabytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("this process may not open enough files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:  # the server inherits the limit
        running = serving(folder, "--idle-seconds", PATIENCE)
        live = running.__enter__()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    silent = []
    try:
        silent.extend(connect(live) for _ in range(700))
        assert live.get("/healthz").status_code == 200
        assert live.stop() == 0
        said = live.process.stderr.read()
        assert len(said) < 2000, said[:2000]
    finally:
        for one in silent:
            one.close()
        running.__exit__(None, None, None)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_cap_is_below_the_file_limit():
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        assert most_connections() < soft


class Transport(asyncio.Transport):
    """Notes what is written to it."""

    def __init__(self):
        super().__init__()
        self.written, self.state = b"", "open"

    def write(self, data):
        """Note it."""
        self.written += data

    def close(self):
        """Note it."""
        self.state = "closed"

    def abort(self):
        """Note it."""
        self.state = "aborted"


def test_connections_being_answered_are_not_closed_for_others(monkeypatch):
    monkeypatch.setattr(_connections, "H11Protocol", lambda **_: asyncio.Protocol())

    async def run():
        everyone = Connections(most=2, seconds=PATIENCE)
        transports = [Transport() for _ in range(5)]
        made = [Connection(everyone) for _ in transports]
        for i in (0, 1):
            made[i].connection_made(transports[i])
            made[i].begin()
            made[i].work()
        made[2].connection_made(transports[2])  # both others are at work
        assert transports[2].written.startswith(b"HTTP/1.1 503 ")
        assert [t.state for t in transports[:3]] == ["open", "open", "closed"]
        made[2].connection_lost(None)
        made[1].end()
        made[3].connection_made(transports[3])
        assert transports[1].state == "aborted"
        made[1].connection_lost(None)
        made[0].end()
        made[0].data_received(b"more")  # so the other one is silent longer
        made[4].connection_made(transports[4])
        assert [t.state for t in transports[3:]] == ["aborted", "open"]
        for i in (3, 4, 0):
            made[i].connection_lost(None)
        assert everyone.n_open == 0
        assert not everyone.waiting

    asyncio.run(run())


def test_a_client_that_does_not_read_is_given_up(folder, monkeypatch):
    """The answers it does not read fill the buffers; the server waits a while."""
    monkeypatch.setattr(_app, "_WRITE_SECONDS", 0.05)
    aborted = []

    class Deaf:
        is_full = True  # what was written to it has not been read

        def begin(self):
            pass

        def work(self):
            pass

        def end(self):
            pass

        def abort(self):
            aborted.append(True)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_):
        await asyncio.Event().wait()

    scope = {
        "type": "http", "method": "GET", "path": "/healthz", "raw_path": b"/healthz",
        "query_string": b"", "headers": [],
    }  # fmt: skip

    async def run():
        _connections.CURRENT.set(Deaf())
        await serve.app(Rejector.load(folder))(scope, receive, send)

    asyncio.run(asyncio.wait_for(run(), PATIENCE))
    assert aborted


def test_a_connection_is_full_while_its_client_does_not_read(monkeypatch):
    monkeypatch.setattr(_connections, "H11Protocol", lambda **_: asyncio.Protocol())
    one = Connection(Connections(most=1, seconds=PATIENCE))
    seen = [one.is_full]
    for change in (one.pause_writing, one.resume_writing):
        change()
        seen.append(one.is_full)
    assert seen == [False, True, False]


def test_many_clients_at_once_are_all_answered(few):
    """More than it holds: each gets 200, or 503 and an answer when it asks again."""

    def status(connection):
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0  # closed for a newer one

    clients = [http.client.HTTPConnection("127.0.0.1", few.port) for _ in range(50)]
    try:
        assert {status(one) for one in clients} <= {200, 503, 0}
    finally:
        for one in clients:
            one.close()
    wait_until(lambda: few.get("/healthz").status_code == 200)
