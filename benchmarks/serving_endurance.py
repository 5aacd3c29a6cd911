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
import itertools
import json
import os
import re
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from _measure import machine, put_section
from _serving_process import PATIENCE, Server, counts, kill
from _serving_requests import (
    STALLED,
    BrokenError,
    Request,
    answer,
    bad_requests,
    calibrated,
    good_requests,
)

RESULTS = Path(__file__).with_name("results") / "serving_endurance.json"


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


@dataclass
class Run:
    """What is left when all requests are answered: of the clients and of the server."""

    totals: Totals
    disturbance: Disturbance
    exit_codes: list[int | None]
    server_counts: Counter[str]
    log: str


def disturbed(n: int, connections: int, every: int) -> Run:
    """Send all requests to a server that is disturbed meanwhile."""
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
        return Run(totals, disturbance, codes, own, log.read_text())


def measured(n: int, connections: int, every: int) -> dict[str, Any]:
    """Run everything and count."""
    began, load = time.monotonic(), os.getloadavg()
    run = disturbed(n, connections, every)
    totals, disturbance = run.totals, run.disturbance
    reasons = [
        reason(one, disturbance.kills, disturbance.restarted) for one in totals.breaks
    ]
    lost = [
        one.why
        for one, why in zip(totals.breaks, reasons, strict=True)
        if why == "lost"
    ]
    return {
        "requests": n,
        "connections": connections,
        "seconds": round(time.monotonic() - began, 1),
        "load_average": {"before": load[0], "after": os.getloadavg()[0]},
        "kills": len(disturbance.kills),
        "hangups_of_workers": disturbance.n_hangups,
        "hangups_of_the_server": 1,
        "exit_codes": run.exit_codes,
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
        "breaks": {
            one: reasons.count(one) for one in ("killed", "not accepted", "lost")
        },
        "lost": lost[:20],
        "server_counts": dict(sorted(run.server_counts.items())),
        "server_5xx": sum(
            count
            for key, count in run.server_counts.items()
            if re.search(r" 5\d\d$", key) and not key.endswith(" 503")
        ),
        "memory_mb": disturbance.memory,
        "log_bytes": len(run.log),
        "log_tracebacks": run.log.count("Traceback"),
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
