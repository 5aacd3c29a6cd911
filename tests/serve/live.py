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
        self.process = process
        self.url = url
        self.port = int(url.rsplit(":", 1)[1])

    def get(self, path, **options):
        """Ask for a path."""
        return httpx.get(self.url + path, timeout=PATIENCE, **options)

    def post(self, path="/predict", **options):
        """Send something, by default to be decided on."""
        return httpx.post(self.url + path, timeout=PATIENCE, **options)

    def read_until(self, words):
        """Read what it says up to a line with these words."""
        while words not in (line := self.process.stderr.readline()):
            assert line, f"it ended and did not say {words!r}"

    def stop(self):
        """Ask it to stop, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE)


@contextmanager
def serving(folder, *options, before=""):
    """Start `openset serve` on a free port and stop it in the end.

    All workers are there when it returns. The process runs the code `before` first.
    """
    n_missing = (
        int(options[options.index("--workers") + 1]) if "--workers" in options else 1
    )
    start = f"{before}\nfrom openset.cli import main; main()"
    command = [sys.executable, "-c", start, "serve", str(folder)]
    command += [] if "--port" in options else ["--port", "0"]
    process = subprocess.Popen(  # noqa: S603  # our own command
        [*command, *map(str, options)], stderr=subprocess.PIPE, text=True
    )
    lines = []
    try:
        for line in process.stderr:
            lines.append(line)
            found = re.search(r"Serving at (http://\S+)", line)
            n_missing -= found is not None
            if not n_missing:
                break
        else:
            msg = "the server did not start:\n" + "".join(lines)
            raise RuntimeError(msg)
        yield Live(process, found[1])
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stderr.close()
