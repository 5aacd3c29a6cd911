"""A Ray cluster of two nodes on this machine, for as long as a test lasts."""

import os
import secrets
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.waiting import wait_until

_ROOT = Path(__file__).resolve().parents[3]
_SCRIPT = "import sys; from ray.scripts.scripts import main; sys.exit(main())"
_SMALL = str(80 << 20)  # bytes of shared memory; cells leave their results on disk


def _free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _node(arguments, environment, log):
    # --block: the node lives and dies with this process, and no other node with it.
    command = [sys.executable, "-c", _SCRIPT, "start", "--block", *arguments]
    return subprocess.Popen(  # noqa: S603  # our own words
        command,
        env=environment,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


@contextmanager
def two_nodes(folder, *, cpus=1):
    """Start two nodes of `cpus` CPUs; yields the address and how to be let in.

    Ray listens on all interfaces, so both nodes ask for a token only we know. It is in
    the environment that is yielded, which Ray reads once, when it is first imported.
    """
    folder = Path(folder)
    environment = os.environ | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT)]),
    }
    port = _free_port()
    address = f"127.0.0.1:{port}"
    shared = [
        f"--num-cpus={cpus}",
        f"--object-store-memory={_SMALL}",
        "--disable-usage-stats",
    ]
    head = [
        "--head",
        f"--port={port}",
        f"--ray-client-server-port={_free_port()}",
        "--include-dashboard=false",
        f"--temp-dir={folder}",
    ]
    nodes = []
    try:
        with (folder / "ray.log").open("wb") as log:
            nodes.append(_node([*head, *shared], environment, log))
            wait_until(lambda: _has_started(nodes[0], port, log.name))
            nodes.append(_node([f"--address={address}", *shared], environment, log))
            yield address, environment
    finally:
        for node in reversed(nodes):
            _stop(node)


def _has_started(node, port, log):
    """Whether it answers; what it said instead, if it has ended."""
    if node.poll() is not None:
        said = Path(log).read_text(errors="replace")[-2000:]
        msg = f"no Ray cluster: {said}"
        raise RuntimeError(msg)
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def _stop(node):
    """End a node: asked to, then made to, with all it started (its own session)."""
    if node.poll() is None:
        node.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            node.wait(10)
    with suppress(ProcessLookupError):
        os.killpg(node.pid, signal.SIGKILL)
    node.wait()
