"""Fixtures for data sets: where real data lies, a clean environment, a web server."""

import importlib.util
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@pytest.fixture(scope="session")
def data_root(compact_copies):
    """Folder of compact copies of data sets, if they are here."""
    if not (compact_copies / "mnist.npz.xz").exists():
        pytest.skip(f"no compact copies of data sets in {compact_copies}")
    return compact_copies


@pytest.fixture(scope="session")
def reference(data_root):
    """Load with the independent loader that comes with the packaged sets."""
    if not (data_root / "load.py").exists():
        pytest.skip("the packaged sets came without their own loader")
    spec = importlib.util.spec_from_file_location(
        "packaged_load", data_root / "load.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    """Let no setting of the person who runs the tests decide their outcome."""
    for name in ("OPENSET_OFFLINE", "OPENSET_DATA"):
        monkeypatch.delenv(name, raising=False)


class Web:
    """A web server whose behaviour a test chooses, and the requests it saw."""

    def __init__(self):
        self.files = {}
        self.requests = []
        self.ranges = True
        self.cut_after = []  # bytes to send before hanging up, one entry per request
        self.status = []  # status codes to answer with, one entry per request
        self.wrong_range = False
        self.gate = threading.Event()  # cleared: no more than a first chunk is sent
        self.gate.set()
        self.sent = 0  # bytes of files sent so far
        self.says_length = True
        self.url = ""

    def answer(self, handler):
        """Answer one request as the test asked for."""
        asked = handler.headers.get("Range")
        self.requests.append(asked)
        if self.status:
            code = self.status.pop(0)
            if code:
                handler.send_error(code)
                return
        body = self.files.get(handler.path.lstrip("/"))
        if body is None:
            handler.send_error(404)
            return
        start = 0
        if asked and self.ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                handler.send_response(416)
                handler.send_header("Content-Range", f"bytes */{len(body)}")
                handler.send_header("Content-Length", "0")
                handler.end_headers()
                return
            handler.send_response(206)
            shown = 0 if self.wrong_range else start
            span = f"bytes {shown}-{len(body) - 1}/{len(body)}"
            handler.send_header("Content-Range", span)
        else:
            handler.send_response(200)
        rest = body[start:]
        if self.says_length:
            handler.send_header("Content-Length", str(len(rest)))
        handler.end_headers()
        limit = self.cut_after.pop(0) if self.cut_after else None
        self.send(handler, rest if limit is None else rest[:limit])
        handler.close_connection = True

    def send(self, handler, body, size=4096):
        """Send chunk by chunk, the first one whether the gate is open or not."""
        for start in range(0, len(body), size):
            try:
                handler.wfile.write(body[start : start + size])
                handler.wfile.flush()
            except OSError:  # whoever asked is gone
                return
            self.sent += len(body[start : start + size])
            self.gate.wait()


@pytest.fixture
def web(monkeypatch):
    """Start a web server on this machine for one test."""
    monkeypatch.setattr("openset.datasets._download.PAUSE", 0.0)
    # A proxy of the person who runs the tests must not be asked for 127.0.0.1.
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    state = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            state.answer(self)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield state
    state.gate.set()
    server.shutdown()
    thread.join()
    server.server_close()
