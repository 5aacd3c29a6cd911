"""Many requests against a server whose workers are killed meanwhile.

    python benchmarks/serving_endurance.py [--requests 100000] [--connections 48]

Clients with keep-alive connections send requests of several kinds to `openset serve
--workers 2` and compare every answer with what the rejector says in this process.
Meanwhile, every few thousand requests, the younger worker is killed (SIGKILL) or told
to stop (SIGHUP), in turns; others hold silent connections and half-sent headers or
bodies, and send malformed requests. Near the end the older worker is killed, then the
whole server gets a SIGHUP, and another is started on its port.

How losses are counted. A client whose connection breaks sends the request again on a
new one, and each request must be answered in the end. Every break is kept and belongs
to one of these:

* *killed*: a SIGKILL hit the worker that held the connection. The worker is stopped
  (SIGSTOP) before, and its connections are read from /proc, so this is known exactly.
* *not accepted*: the connection was new, no request had been answered on it, and the
  server's port was closed after a SIGHUP: the system resets those that still wait.
* *lost*: everything else, answers that did not come within a minute included.

Writes benchmarks/results/serving_endurance.json and a section of benchmarks/README.md.
"""

import argparse
import io
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from _measure import machine, put_section

from openset import Outputs, Rejector, detectors

RESULTS = Path(__file__).with_name("results") / "serving_endurance.json"
N_CLASSES = 10
PATIENCE = 60.0  # seconds for an answer
JSON, NPZ = "application/json", "application/x-npz"
CLOSE = "Connection: close\r\n"


def split(seed: int, n: int) -> Outputs:
    """Make outputs."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, N_CLASSES, n)
    logits = rng.standard_normal((n, N_CLASSES))
    logits[np.arange(n), labels] += 3
    return Outputs(logits=logits, labels=labels)


def calibrated() -> Rejector:
    """Make a rejector with prediction sets."""
    known = split(1, 2000)
    fitted = detectors.MSP().fit(known)
    options: dict[str, Any] = {"objective": "at_tpr", "tpr": 0.9, "sets": "lac"}
    return Rejector.calibrate(fitted, known=known, **options)


@dataclass(frozen=True)
class Request:
    """Bytes to send, and what must come back."""

    content: bytes
    is_right: Callable[[int, bytes], bool]


def posted(
    path: str, kind: str, body: bytes, *, length: int | None = None, more: str = ""
) -> bytes:
    """Write a request."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n{more}"
        f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
    )
    return head.encode() + body


def packed(**arrays: Any) -> bytes:
    """Write a ``.npz``."""
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def good_requests(rejector: Rejector) -> list[Request]:
    """Make requests of three kinds, with the answers `rejector` gives here."""
    found = []
    for seed in range(300):
        kind = ("json", "npz", "v2")[seed % 3]
        new = split(100 + seed, 64 if kind == "npz" else 1)
        logits = np.asarray(new.logits)
        decided = rejector.decide(Outputs(logits=logits))
        labels = decided.labels.tolist()
        assert labels == rejector.predict(Outputs(logits=logits)).tolist()
        known = decided.scores.known.tolist()
        if kind == "v2":
            tensor = {"name": "logits", "datatype": "FP64", "shape": [1, N_CLASSES]}
            document = {"inputs": [{**tensor, "data": logits.tolist()}]}
            body = json.dumps(document).encode()
            content = posted("/v2/models/openset/infer", JSON, body)
            wanted: dict[str, Any] = {
                "decision": labels,
                "known": known,
                "set": decided.sets.ravel().tolist(),
            }
        else:
            is_json = kind == "json"
            rows = json.dumps({"logits": logits.tolist()}).encode()
            body = rows if is_json else packed(logits=logits)
            content = posted("/predict", JSON if is_json else NPZ, body)
            wanted = {
                "decisions": labels,
                "names": [rejector.name_of(one) for one in labels],
                "predicted": decided.scores.predicted.tolist(),
                "known": known,
                "threshold": rejector.threshold.value,
                "n_unknown": decided.n_rejected,
                "sets": decided.set_classes,
            }
        found.append(Request(content, _equals(wanted)))
    return found


def _equals(wanted: dict[str, Any]) -> Callable[[int, bytes], bool]:
    def check(status: int, body: bytes) -> bool:
        if status != 200:
            return False
        got = json.loads(body)
        if "outputs" in got:
            tensors = {one["name"]: one["data"] for one in got["outputs"]}
            got = {name: tensors[name] for name in wanted}
        return bool(got == wanted)

    return check


def bad_requests() -> list[Request]:
    """Make requests that must be refused, each with its status."""
    rows = packed(logits=np.zeros((4, N_CLASSES)))
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("logits.npy", bytes(50_000_000))
    made = [
        (400, posted("/predict", JSON, b'{"logits": [[1, 2')),
        (400, posted("/predict", JSON, b"[" * 100_000)),
        (400, posted("/predict", NPZ, rows[:-30])),
        (400, posted("/predict", NPZ, b"nothing NumPy wrote")),
        (413, posted("/predict", NPZ, bomb.getvalue())),
        # The rest of the body will not come, so nothing else can on this connection.
        (413, posted("/predict", JSON, b"", length=10**12, more=CLOSE)),
        (415, posted("/predict", "text/plain", b"1 2 3")),
        (422, posted("/predict", JSON, b'{"logits": [[1, 2, 3]]}')),
        (422, posted("/predict", NPZ, packed(logits=np.full((2, N_CLASSES), np.nan)))),
        (422, posted("/v2/models/openset/infer", JSON, b'{"inputs": [{}]}')),
        (404, posted("/nothing", JSON, b"{}")),
        (400, b"\x16\x03\x01\x02\x00 this is no HTTP\r\n\r\n"),
    ]
    return [Request(content, _has(status)) for status, content in made]


def _has(wanted: int) -> Callable[[int, bytes], bool]:
    return lambda status, _: status == wanted


class BrokenError(Exception):
    """The connection ended before the answer did."""


def answer(connection: socket.socket) -> tuple[int, bytes, bool]:
    """Read status and body of an answer, and whether the connection stays open."""
    got = b""
    while (end := got.find(b"\r\n\r\n")) < 0:
        part = connection.recv(1 << 16)
        if not part:
            raise BrokenError
        got += part
    head = got[:end].lower()
    length = re.search(rb"content-length: *(\d+)", head)
    body = got[end + 4 :]
    while len(body) < int(length[1] if length else 0):
        part = connection.recv(1 << 16)
        if not part:
            raise BrokenError
        body += part
    return int(head.split()[1]), body, b"connection: close" not in head


@dataclass
class Break:
    """A connection that ended while a request was on it."""

    port: int
    opened: float
    at: float
    is_new: bool
    why: str


@dataclass
class Totals:
    """What all clients counted."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    statuses: Counter[int] = field(default_factory=Counter)
    bad_statuses: Counter[int] = field(default_factory=Counter)
    n_right: int = 0
    n_wrong: int = 0
    n_bad_right: int = 0
    n_bad_wrong: int = 0
    n_refused: int = 0
    n_closed: Counter[str] = field(default_factory=Counter)
    breaks: list[Break] = field(default_factory=list)


class Client(threading.Thread):
    """Sends one request after another over a connection that stays open."""

    def __init__(
        self, port: int, tickets: Iterator[Request], totals: Totals, *, is_bad: bool
    ) -> None:
        super().__init__(daemon=True)
        self._port, self._tickets, self._totals = port, tickets, totals
        self._is_bad = is_bad
        self._connection: socket.socket | None = None
        self._opened, self._is_new = 0.0, True

    def run(self) -> None:
        """Work until there are no more tickets."""
        for one in self._tickets:
            while not self._answered(one):
                pass
        self._close()

    def _answered(self, one: Request) -> bool:
        totals = self._totals
        if self._connection is None and not self._connect():
            return False
        connection = self._connection
        assert connection is not None
        here = connection.getsockname()[1]
        try:
            connection.sendall(one.content)
            status, body, stays = answer(connection)
        except (OSError, BrokenError) as error:
            what = Break(
                here, self._opened, time.monotonic(), self._is_new, repr(error)
            )
            with totals.lock:
                totals.breaks.append(what)
            self._close()
            return False
        self._is_new = False
        if not stays:
            self._close()
        is_right = one.is_right(status, body)
        with totals.lock:
            if self._is_bad:
                totals.bad_statuses[status] += 1
                totals.n_bad_right += is_right
                totals.n_bad_wrong += not is_right and status != 503
            else:
                totals.statuses[status] += 1
                totals.n_right += is_right
                totals.n_wrong += not is_right and status != 503
        if status == 503:  # asked to come back: this request is not answered yet
            time.sleep(0.1)
        return status != 503

    def _connect(self) -> bool:
        try:
            self._connection = socket.create_connection(
                ("127.0.0.1", self._port), timeout=PATIENCE
            )
        except OSError:
            with self._totals.lock:
                self._totals.n_refused += 1
            time.sleep(0.05)
            return False
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._opened, self._is_new = time.monotonic(), True
        return True

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


STALLED = {
    "silent": b"",
    "half of the headers": b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Ty",
    "half of a body": posted("/predict", JSON, b'{"logits": [[', length=500),
}


class Staller(threading.Thread):
    """Opens connections, says too little on them, and waits until they are closed."""

    def __init__(
        self, port: int, kind: str, totals: Totals, end: threading.Event
    ) -> None:
        super().__init__(daemon=True)
        self._port, self._kind, self._totals, self._end = port, kind, totals, end

    def run(self) -> None:
        """Hold twenty connections at a time."""
        while not self._end.is_set():
            held = []
            for _ in range(20):
                try:
                    one = socket.create_connection(("127.0.0.1", self._port), PATIENCE)
                    held.append(one)
                    one.sendall(STALLED[self._kind])
                except OSError:
                    self._end.wait(0.1)
            for one in held:
                try:
                    while one.recv(1 << 16):  # an answer (408), then the end
                        pass
                    reason = self._kind
                except TimeoutError:
                    reason = f"{self._kind}, still open after {PATIENCE:.0f} s"
                except OSError:
                    reason = self._kind
                one.close()
                with self._totals.lock:
                    self._totals.n_closed[reason] += 1


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
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        found = []
        for child in map(int, children):
            command = Path(f"/proc/{child}/cmdline").read_text()
            if "spawn_main" in command and _stat(child)[0] != "Z":
                found.append(child)
        return sorted(found, key=lambda child: int(_stat(child)[19]))

    def memory(self) -> dict[str, Any]:
        """Return resident memory in MB: of the parent, and of workers by number."""
        sizes = {one: _megabytes(one) for one in self.workers()}
        return {"parent": _megabytes(self.process.pid), "workers": sizes}


def _stat(process: int) -> list[str]:
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()


def _megabytes(process: int) -> float:
    text = Path(f"/proc/{process}/status").read_text()
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
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[9] in sockets:
            ports.add(int(fields[2].split(":")[1], 16))
    at = time.monotonic()
    os.kill(worker, signal.SIGKILL)
    return {"at": at, "ports": ports}


def reason(one: Break, kills: list[dict[str, Any]], hangup: float | None) -> str:
    """Say what a break belongs to."""
    for killed in kills:
        if one.port in killed["ports"] and one.opened <= killed["at"] <= one.at:
            return "killed"
    if one.is_new and hangup is not None and one.at >= hangup:
        return "not accepted"
    return "lost"


class Disturbance:
    """Kills workers, hangs up, and measures memory, by the number of answers."""

    def __init__(self, server: Server, totals: Totals, n: int, every: int) -> None:
        self.server, self._totals = server, totals
        self._n, self._every = n, every
        self.kills: list[dict[str, Any]] = []
        self.n_hangups = 0
        self.memory: dict[str, dict[str, Any]] = {}
        self.restarted: float | None = None
        self.exit_code: int | None = None

    def run(self, start: Callable[[int], Server]) -> None:
        """Disturb until nine tenths are answered; then restart the server."""
        last = int(0.9 * self._n)
        self._wait(self._n // 50)
        self.memory["start"] = self.server.memory()
        for step, place in enumerate(range(self._every, last, self._every)):
            self._wait(place)
            if "middle" not in self.memory and place >= self._n // 2:
                self.memory["middle"] = self.server.memory()
            self.server.wait_for(2 + step)
            youngest = self.server.workers()[-1]
            if step % 2:
                os.kill(youngest, signal.SIGHUP)
                self.n_hangups += 1
            else:
                self.kills.append(kill(youngest))
            print(time.strftime("%X"), place, "answered", flush=True)
        self._wait(last)
        n_started = 2 + len(self.kills) + self.n_hangups
        self.server.wait_for(n_started)
        self.memory["end"] = self.server.memory()
        self.kills.append(kill(self.server.workers()[0]))
        self.server.wait_for(n_started + 1)
        # What it answers after this, until it has stopped, is not in its counts.
        self.counts = counts(self.server)
        self.restarted = time.monotonic()
        self.server.process.send_signal(signal.SIGHUP)
        self.exit_code = self.server.process.wait(timeout=PATIENCE)
        self.server = start(self.server.port)

    def _wait(self, n: int) -> None:
        while self._totals.n_right + self._totals.n_wrong < n:
            assert self.server.process.poll() is None, self.server.text()[-2000:]
            time.sleep(0.02)


def counts(server: Server) -> dict[str, int]:
    """Return the server's own counts of answers, by path and status."""
    address = f"http://127.0.0.1:{server.port}/metrics"
    text = httpx.get(address, timeout=PATIENCE).text
    rows = re.findall(
        r'openset_requests_total{path="(.*?)",status="(\d+)"} (\S+)', text
    )
    return {f"{path} {status}": int(float(n)) for path, status, n in rows}


def measured(n: int, connections: int, every: int) -> dict[str, Any]:
    """Run everything and count."""
    began, load = time.monotonic(), os.getloadavg()
    totals, end = Totals(), threading.Event()
    with tempfile.TemporaryDirectory() as temporary:
        log = Path(temporary) / "log"
        rejector = calibrated()
        folder = rejector.save(Path(temporary) / "rejector")
        good, bad = good_requests(rejector), bad_requests()
        server = Server(folder, log)
        lock = threading.Lock()

        port = server.port
        shared = itertools.islice(itertools.cycle(good), n)
        more = itertools.cycle(bad)

        def taken(source: Iterator[Request]) -> Iterator[Request]:
            while not end.is_set():
                # A malformed request for every ten others.
                if source is more and 10 * totals.n_bad_right > totals.n_right:
                    end.wait(0.01)
                    continue
                with lock:
                    one = next(source, None)
                if one is None:
                    return
                yield one

        clients = [
            Client(port, taken(shared), totals, is_bad=False)
            for _ in range(connections)
        ]
        others = [
            *(Client(port, taken(more), totals, is_bad=True) for _ in range(2)),
            *(Staller(port, kind, totals, end) for kind in STALLED),
        ]
        for one in [*clients, *others]:
            one.start()
        disturbance = Disturbance(server, totals, n, every)
        try:
            disturbance.run(lambda port: Server(folder, log, port))
            for client in clients:
                client.join()
            end.set()
            for other in others:
                other.join(timeout=2 * PATIENCE)
            server = disturbance.server
            own = Counter(disturbance.counts) + Counter(counts(server))
            server.process.terminate()
            codes = [disturbance.exit_code, server.process.wait(timeout=PATIENCE)]
        finally:
            for one in (disturbance.server, server):
                one.process.kill()
        text = log.read_text()
    reasons = Counter(
        reason(one, disturbance.kills, disturbance.restarted) for one in totals.breaks
    )
    lost = [
        one.why
        for one in totals.breaks
        if reason(one, disturbance.kills, disturbance.restarted) == "lost"
    ]
    return {
        "requests": n,
        "connections": connections,
        "seconds": round(time.monotonic() - began, 1),
        "load_average": {"before": load[0], "after": os.getloadavg()[0]},
        "kills": len(disturbance.kills),
        "hangups_of_workers": disturbance.n_hangups,
        "hangups_of_the_server": 1,
        "exit_codes": codes,
        "right": totals.n_right,
        "wrong": totals.n_wrong,
        "statuses": dict(sorted(totals.statuses.items())),
        "malformed": {
            "as_expected": totals.n_bad_right,
            "otherwise": totals.n_bad_wrong,
            "statuses": dict(sorted(totals.bad_statuses.items())),
        },
        "stalled_connections_closed": dict(sorted(totals.n_closed.items())),
        "connections_refused": totals.n_refused,
        "breaks": {one: reasons[one] for one in ("killed", "not accepted", "lost")},
        "lost": lost[:20],
        "server_counts": dict(sorted(own.items())),
        "server_5xx": sum(
            count
            for key, count in own.items()
            if re.search(r" 5\d\d$", key) and not key.endswith(" 503")
        ),
        "memory_mb": disturbance.memory,
        "log_bytes": len(text),
        "log_tracebacks": text.count("Traceback"),
        "machine": machine(),
        "versions": {name: version(name) for name in ("uvicorn", "fastapi", "numpy")},
    }


def section(found: dict[str, Any]) -> str:
    """Write the results for people."""
    memory = found["memory_mb"]
    oldest = next(iter(memory["start"]["workers"]))
    places = ("start", "middle", "end")
    row = {
        "parent": [memory[at]["parent"] for at in places],
        "the older worker, alive throughout": [
            memory[at]["workers"][oldest] for at in places
        ],
        "the younger one, replaced again and again": [
            list(memory[at]["workers"].values())[-1] for at in places
        ],
    }
    breaks, malformed = found["breaks"], found["malformed"]
    statuses = ", ".join(f"{n} × {status}" for status, n in found["statuses"].items())
    refused = ", ".join(
        f"{n} × {status}" for status, n in malformed["statuses"].items()
    )
    stalled = found["stalled_connections_closed"]
    closed = ", ".join(f"{n} {kind}" for kind, n in stalled.items())
    before, after = found["load_average"].values()
    lines = [
        "## Serving: endurance",
        "",
        f"`python benchmarks/serving_endurance.py` on {found['machine']}; "
        + ", ".join(f"{name} {one}" for name, one in found["versions"].items())
        + f". `openset serve --workers 2` answers {found['requests']} requests over "
        f"{found['connections']} keep-alive connections (single samples as JSON and "
        "by the Open Inference Protocol, 64 samples as `.npz`) in "
        f"{found['seconds']:.0f} s, while workers are killed, connections stall and "
        "malformed requests arrive. The script says how losses are counted. Load "
        f"average {before:.1f} before, {after:.1f} after.",
        "",
        "| | |",
        "|---|---|",
        f"| answers equal to `rejector.decide`, bit for bit | {found['right']} |",
        f"| other answers | {found['wrong']} |",
        f"| statuses | {statuses} |",
        f"| 5xx other than 503, by the server's own count | {found['server_5xx']} |",
        f"| SIGKILL of a worker | {found['kills']} |",
        f"| SIGHUP of a worker; of the server | {found['hangups_of_workers']}; "
        f"{found['hangups_of_the_server']} |",
        "| requests in flight in a killed worker: sent again, and answered | "
        f"{breaks['killed']} |",
        "| reset while waiting to be accepted by a server that stops: sent again | "
        f"{breaks['not accepted']} |",
        f"| lost | {breaks['lost']} |",
        f"| malformed requests refused with the expected status | "
        f"{malformed['as_expected']} ({refused}) |",
        f"| malformed requests answered otherwise | {malformed['otherwise']} |",
        f"| stalled connections closed by the server | {closed} |",
        f"| tracebacks in the log ({found['log_bytes'] / 1e3:.1f} kB) | "
        f"{found['log_tracebacks']} |",
        "",
        "| resident memory, MB | start | middle | end |",
        "|---|---|---|---|",
        *(f"| {name} | {' | '.join(map(str, one))} |" for name, one in row.items()),
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=48)
    parser.add_argument("--every", type=int, default=4000, help="answers per kill")
    parser.add_argument("--dry", action="store_true", help="print, write nothing")
    given = parser.parse_args()
    found = measured(given.requests, given.connections, given.every)
    text = section(found)
    print(json.dumps(found, indent=1), text, sep="\n")
    if not given.dry:
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        put_section("serving, endurance", text)


if __name__ == "__main__":
    main()
