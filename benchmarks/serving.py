"""The server under load, beside a plain FastAPI + uvicorn application.

    python benchmarks/serving.py [--requests 100000] [--seconds 6] [--workers N]

Both serve the same rejector and give the same answer; the plain one (`_plain.py`) has
no limits, deadlines or metrics. Load comes from `_load.py` (keep-alive) on the same
machine, so that server and client share its cores; both are measured in turns. Networks
are made up: logits and features are normal numbers, float32, seed 0.
"""

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np
from _measure import save_claim

from openset import Outputs, Rejector, detectors

N_BATCH = 256
ROUNDS = 3
CORES = os.cpu_count() or 1
LOAD = os.getloadavg()[0]
JSON, NPZ = "application/json", "application/x-npz"


@dataclass(frozen=True)
class Case:
    """A detector over a network of some size."""

    detector: str
    n_classes: int
    n_features: int
    n_train: int

    @property
    def name(self) -> str:
        """Describe it in a line."""
        parts = f"{self.detector}, {self.n_classes} classes"
        return parts + (f", {self.n_features} features" if self.n_features else "")

    def split(self, seed: int, n: int) -> Outputs:
        """Make outputs."""
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, self.n_classes, n)
        logits = rng.standard_normal((n, self.n_classes), dtype=np.float32)
        logits[np.arange(n), labels] += 8
        features = (
            np.abs(rng.standard_normal((n, self.n_features), dtype=np.float32))
            if self.n_features
            else None
        )
        return Outputs(logits=logits, features=features, labels=labels)

    def rejector(self) -> Rejector:
        """Fit and calibrate."""
        fitted = detectors.make(self.detector).fit(self.split(0, self.n_train))
        return Rejector.calibrate(fitted, known=self.split(1, 1000), objective="at_tpr")

    def body(self, n: int, kind: str) -> bytes:
        """Write `n` samples."""
        new = self.split(2, n)
        arrays = {"logits": new.logits, "features": new.features}
        given = {k: v for k, v in arrays.items() if v is not None}
        if kind == JSON:
            rows = {name: array.round(4).tolist() for name, array in given.items()}
            return httpx.Request("POST", "http://x", json=rows).content
        stream = io.BytesIO()
        np.savez(stream, **given)
        return stream.getvalue()


CASES = (
    Case("msp", 10, 0, 1000),
    Case("msp", 1000, 0, 1000),
    Case("postmax", 1000, 1280, 4000),
)


@dataclass(frozen=True)
class Running:
    """A server that runs."""

    url: str
    process: int

    def cpu(self) -> float:
        """Return the seconds it has computed so far."""
        text = Path(f"/proc/{self.process}/stat").read_text(encoding="utf-8")
        user, system = text.rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(*arguments: str) -> Iterator["Running"]:
    """Run a server in a process of its own."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, *arguments], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        found = None
        while found is None:
            line = process.stderr.readline()
            assert line, "the server did not start"
            found = re.search(r"http://[\d.:]+", line)
        yield Running(found[0], process.pid)
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stderr.close()


@contextmanager
def servers(case: Case, workers: int) -> Iterator[dict[str, Running]]:
    """Start ours, the plain one, and ours with several workers."""
    ours = ("-c", "from openset.cli import main; main()", "serve")
    plain = str(Path(__file__).with_name("_plain.py"))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        there = str(case.rejector().save(Path(folder) / "rejector"))
        several = (*ours, there, "--port", "0", "--workers", str(workers))
        yield {
            "ours": stack.enter_context(running(*ours, there, "--port", "0")),
            "plain": stack.enter_context(running(plain, there)),
            "workers": stack.enter_context(running(*several)),
        }


def load(
    url: str, body: bytes, kind: str, *, connections: int, seconds: float
) -> dict[str, float]:
    """Send the same request again and again; return latencies and rates."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "body"
        file.write_bytes(body)
        options = ["--url", url, "--body", str(file), "--kind", kind]
        options += ["--connections", str(connections), "--seconds", str(seconds)]
        script = str(Path(__file__).with_name("_load.py"))
        done = subprocess.run(  # noqa: S603
            [sys.executable, script, *options], check=True, stdout=subprocess.PIPE
        )
    return json.loads(done.stdout)


def compared(case: Case, seconds: float, workers: int) -> Iterator[dict[str, Any]]:
    """Measure single samples as JSON and batches as .npz, in turns."""
    with servers(case, workers) as urls:
        for n, kind, connections in (
            (1, JSON, 1),
            (1, JSON, 16),
            (N_BATCH, NPZ, 1),
            (N_BATCH, NPZ, 8),
        ):
            body = case.body(n, kind)
            paths = {"plain": "/json" if kind == JSON else "/binary"}
            ours = "/predict" if kind == JSON else "/predict/npz"
            found: dict[str, list[dict[str, float]]] = {name: [] for name in urls}
            for _ in range(ROUNDS + 1):  # the first round warms up
                for name, server in urls.items():
                    path = server.url + paths.get(name, ours)
                    span = seconds / ROUNDS
                    options = {"connections": connections, "seconds": span}
                    before = server.cpu()
                    one = load(path, body, kind, **options)
                    one["cpu"] = 1e3 * (server.cpu() - before) / one["n"]
                    found[name].append(one)
            assert not sum(one["errors"] for many in found.values() for one in many)
            middle = {
                name: {
                    key: median(one[key] for one in many[1:])
                    for key in ("rate", "p99", "cpu")
                }
                for name, many in found.items()
            }
            mine, plain, more = middle["ours"], middle["plain"], middle["workers"]
            what = "one, JSON" if n == 1 else f"{n}, .npz, {len(body) / 1e6:.2f} MB"
            row = {"case": case.name, "samples": what, "connections": connections}
            for key, unit in (("rate", "1/s"), ("p99", "ms"), ("cpu", "ms")):
                row[f"plain, {key} {unit}"] = round(plain[key], 2)
                row[f"ours, {key} {unit}"] = round(mine[key], 2)
                row[f"ours / plain, {key}"] = round(mine[key] / plain[key], 2)
            yield row | {f"{workers} workers, 1/s": round(more["rate"])}


def endurance(case: Case, requests: int) -> str:
    """Send at least `requests` single samples and count what went wrong."""
    body = case.body(1, JSON)
    total, errors, rate, tail = 0.0, 0.0, 1000.0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        there = str(case.rejector().save(Path(folder) / "rejector"))
        start = ("-c", "from openset.cli import main; main()", "serve", there)
        with running(*start, "--port", "0") as server:
            while total < requests:
                seconds = min(60.0, (requests - total) / rate + 1)
                path = f"{server.url}/predict"
                found = load(path, body, JSON, connections=16, seconds=seconds)
                total, errors = total + found["n"], errors + found["errors"]
                rate, tail = found["rate"], max(tail, found["p99"])
            served = httpx.get(server.url + "/metrics").text
    counted = re.search(r'seconds_count{path="/predict",status="200"} (\S+)', served)
    assert counted is not None
    return (
        f"{total:.0f} requests over 16 connections ({case.name}): {errors:.0f} errors, "
        f"p99 {tail:.1f} ms, {rate:.0f} requests/s. The server counted "
        f"{float(counted[1]):.0f} answers with status 200; more than were sent are "
        f"requests in flight when the client stopped counting."
    )


def main() -> None:
    """Measure, print and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--workers", type=int, default=CORES, help="processes")
    arguments = parser.parse_args()
    rows = []
    for case in CASES:
        for row in compared(case, arguments.seconds, arguments.workers):
            rows.append(row)
            print(row, flush=True)
    save_claim(
        "serving",
        "`openset serve` beside a plain FastAPI and uvicorn application (`_plain.py`) "
        "with the same rejector and answer, but without limits or metrics. "
        + endurance(CASES[0], arguments.requests),
        rows,
        data="normal logits and features, float32; the client shares the cores",
        n=f"median of {ROUNDS} rounds in turns; load average before: {LOAD:.1f}",
        seeds=[0],
    )


if __name__ == "__main__":
    main()
