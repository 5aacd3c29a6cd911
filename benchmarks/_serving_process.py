"""A server as a process: its workers, their memory, and how one is killed."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

PATIENCE = 60.0  # seconds for an answer


class Server:
    """A running `openset serve --workers 2`."""

    def __init__(self, folder: Path, log: Path, port: int = 0) -> None:
        self._log = log
        start = [sys.executable, "-c", "from openset.cli import main; main()", "serve"]
        with log.open("ab") as stream:
            self._before = stream.tell()
            self.process = subprocess.Popen(  # noqa: S603  # our own command
                [*start, str(folder), "--port", str(port), "--workers", "2"],
                stderr=stream,
            )
        self.wait_for(2)
        address = re.search(r"Serving at http://[\d.]+:(\d+)", self.text())
        assert address is not None
        self.port = int(address[1])

    def text(self) -> str:
        """Return what it has written."""
        return self._log.read_bytes()[self._before :].decode()

    def wait_for(self, n: int) -> None:
        """Wait until `n` workers have started, all in all."""
        while self.text().count("Serving at") < n:
            assert self.process.poll() is None, self.text()
            time.sleep(0.05)

    def workers(self) -> list[int]:
        """Return the numbers of its living workers, the oldest first."""
        pid = self.process.pid
        children = (
            Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
        )
        found = []
        for child in map(int, children):
            command = Path(f"/proc/{child}/cmdline").read_text(encoding="utf-8")
            if "spawn_main" in command and _stat(child)[0] != "Z":
                found.append(child)
        return sorted(found, key=lambda child: int(_stat(child)[19]))

    def memory(self) -> dict[str, Any]:
        """Return resident memory in MB: of the parent, and of workers by number."""
        sizes = {one: _megabytes(one) for one in self.workers()}
        return {"parent": _megabytes(self.process.pid), "workers": sizes}


def _stat(process: int) -> list[str]:
    return (
        Path(f"/proc/{process}/stat")
        .read_text(encoding="utf-8")
        .rsplit(")", 1)[1]
        .split()
    )


def _megabytes(process: int) -> float:
    text = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    found = re.search(r"VmRSS:\s+(\d+)", text)
    return round(int(found[1]) / 1024, 1) if found else 0.0


def kill(worker: int) -> dict[str, Any]:
    """Kill a worker; return when, and the ports of the clients it had accepted."""
    os.kill(worker, signal.SIGSTOP)
    while _stat(worker)[0] != "T":
        time.sleep(0.001)
    sockets = set()
    for entry in Path(f"/proc/{worker}/fd").iterdir():
        found = re.fullmatch(r"socket:\[(\d+)\]", str(entry.readlink()))
        if found:
            sockets.add(found[1])
    ports = set()
    for line in Path("/proc/net/tcp").read_text(encoding="utf-8").splitlines()[1:]:
        fields = line.split()
        if fields[9] in sockets:
            ports.add(int(fields[2].split(":")[1], 16))
    at = time.monotonic()
    os.kill(worker, signal.SIGKILL)
    return {"at": at, "ports": ports}


def counts(server: Server) -> dict[str, int]:
    """Return the server's own counts of answers, by path and status."""
    address = f"http://127.0.0.1:{server.port}/metrics"
    text = httpx.get(address, timeout=PATIENCE).text
    rows = re.findall(
        r'openset_requests_total{path="(.*?)",status="(\d+)"} (\S+)', text
    )
    return {f"{path} {status}": int(float(n)) for path, status, n in rows}
