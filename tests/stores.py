"""Places with a URL, to test with: fsspec's own in memory, and a web server."""

import functools
import http.server
import threading
from contextlib import contextmanager

import pytest


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Gives the files of a folder, and says nothing."""

    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def web_server(folder, handler=Quiet):
    """Give the URL of a folder, on a web server."""
    pytest.importorskip("aiohttp", reason="what fsspec reads pages with")
    making = functools.partial(handler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), making) as server:
        thread = threading.Thread(
            target=server.serve_forever, args=(0.01,), daemon=True
        )
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def upload(place, url):
    """Copy a folder to a URL."""
    import fsspec  # noqa: PLC0415  # optional

    found, path = fsspec.url_to_fs(url)
    for file in sorted(place.rglob("*")):
        if file.is_file():
            found.pipe_file(f"{path}/{file.relative_to(place)}", file.read_bytes())


def files(url):
    """Return names and content of all files."""
    import fsspec  # noqa: PLC0415  # optional

    found, path = fsspec.url_to_fs(url)
    found.invalidate_cache()
    names = found.find(path)
    return {one.removeprefix(f"{path}/"): found.cat_file(one) for one in names}
