"""A real server in a process of its own."""

import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import httpx
from tests.waiting import PATIENCE


class Live:
    """A running `openset serve`."""

    def __init__(self, process, url):
        self.process, self.url = process, url
        self.port = int(url.rsplit(":", 1)[1])

    def get(self, path, **options):
        """Ask for a path."""
        return httpx.get(self.url + path, timeout=PATIENCE, **options)

    def post(self, path="/predict", **options):
        """Send something, by default to be decided on."""
        return httpx.post(self.url + path, timeout=PATIENCE, **options)

    def stop(self):
        """Ask it to stop, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE)


@contextmanager
def serving(folder, *options):
    """Start `openset serve` on a free port and stop it in the end.

    All workers are there when it returns.
    """
    words = [*map(str, options)]
    n_workers = int(words[words.index("--workers") + 1]) if "--workers" in words else 1
    words += [] if "--port" in words else ["--port", "0"]
    command = [sys.executable, "-m", "openset", "serve", str(folder), *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)  # noqa: S603  # our own
    said, urls = "", []
    try:
        while len(urls) < n_workers:
            line = process.stderr.readline()
            said += line
            if not line:
                msg = f"the server did not start:\n{said}"
                raise RuntimeError(msg)
            urls += re.findall(r"Serving at (http://\S+)", line)
        yield Live(process, urls[0])
    finally:
        process.terminate()  # killed, it would leave its workers behind
        process.communicate(timeout=PATIENCE)
