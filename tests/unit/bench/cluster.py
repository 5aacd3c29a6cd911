"""A Ray cluster of several nodes on this machine, for as long as a test lasts."""

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

# Asked more often, a node that is gone is noticed after seconds, not half a minute. A
# slow one still has its ten seconds for every answer.
_PACE = {"RAY_health_check_period_ms": "500"}


def _free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Cluster:
    """Its address, the environment that lets a process in, and its nodes.

    Ray listens on all interfaces, so all nodes ask for a token only we know. It is in
    the environment, which Ray reads once, when it is first imported.
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        self.environment = os.environ | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT)]),
            **_PACE,
        }
        self._port = _free_port()
        self.address = f"127.0.0.1:{self._port}"
        self.nodes = []

    def start_head(self, *, cpus):
        """Start the node that all others, and drivers, talk to."""
        self._start(
            "--head",
            f"--port={self._port}",
            f"--ray-client-server-port={_free_port()}",
            "--include-dashboard=false",
            f"--temp-dir={self.folder}",
            cpus=cpus,
        )

    def add_node(self, *, cpus, gpus=0):
        """Start another node, one after the other: they share a folder of logs.

        It says that it has `gpus` GPUs, whatever the machine has.
        """
        self._start(f"--address={self.address}", cpus=cpus, gpus=gpus)

    def _start(self, *arguments, cpus, gpus=0):
        # --block: the node lives and dies with this process, and no other node with it.
        command = [sys.executable, "-c", _SCRIPT, "start", "--block", *arguments]
        shared = [
            f"--num-cpus={cpus}",
            f"--num-gpus={gpus}",
            f"--object-store-memory={_SMALL}",
            "--disable-usage-stats",
        ]
        log = self.folder / f"node{len(self.nodes)}-{secrets.token_hex(4)}.log"
        with log.open("wb") as stream:
            node = subprocess.Popen(  # noqa: S603  # our own words
                [*command, *shared],
                env=self.environment,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.nodes.append(node)
        wait_until(lambda: _has_started(node, log))

    def stop(self):
        """End all nodes, the head last."""
        for node in reversed(self.nodes):
            _stop(node)


@contextmanager
def nodes(folder, *, cpus, gpus=None):
    """Start a cluster with one node for each number of CPUs; the first is the head.

    `gpus` are the numbers of GPUs of the others, by default none.
    """
    cluster = Cluster(folder)
    try:
        cluster.start_head(cpus=cpus[0])
        others = cpus[1:]
        for n, cards in zip(others, gpus or [0] * len(others), strict=True):
            cluster.add_node(cpus=n, gpus=cards)
        yield cluster
    finally:
        cluster.stop()


def _has_started(node, log):
    """Whether it has joined; raise what it said instead, if it has ended."""
    said = log.read_text(errors="replace")
    if node.poll() is not None:
        msg = f"no Ray node: {said[-2000:]}"
        raise RuntimeError(msg)
    return "Ray runtime started" in said


def _stop(node):
    """End a node: asked to, then made to, with all it started (its own session)."""
    if node.poll() is None:
        node.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            node.wait(10)
    with suppress(ProcessLookupError):
        os.killpg(node.pid, signal.SIGKILL)
    node.wait()
