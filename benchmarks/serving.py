"""The server under load from another process, beside `predict` in process.

    python benchmarks/serving.py [--requests 100000] [--seconds 5] [--workers N]

Load comes from wrk (keep-alive) on the same machine, so that server and client share
its cores. Networks are made up: logits and features are normal numbers, float32, seed
0. Writes its tables to benchmarks/README.md, one section for each number of cores.
"""

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import httpx
import numpy as np
from _measure import machine, put_section

from openset import Outputs, Rejector, detectors

N_BATCH = 256
ROUNDS = 3
CORES = os.cpu_count() or 1


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
        if self.n_features:
            parts += f", {self.n_features} features"
        return f"{parts}, fitted on {self.n_train}"

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


SINGLE = (
    Case("msp", 10, 0, 1000),
    Case("msp", 1000, 0, 1000),
    Case("postmax", 1000, 1280, 4000),
)
BATCHES = (
    Case("msp", 10, 0, 1000),
    Case("msp", 1000, 0, 1000),
    Case("postmax", 1000, 1280, 4000),
    Case("mahalanobis", 1000, 1280, 20_000),
    Case("knn", 1000, 1280, 50_000),
)


@contextmanager
def serving(rejector: Rejector, workers: int = 1) -> Iterator[str]:
    """Serve in processes of its own, and give its address."""
    with tempfile.TemporaryDirectory() as folder:
        rejector.save(Path(folder) / "rejector")
        start = "from openset.cli import main; main()"
        options = ["serve", f"{folder}/rejector", "--port", "0"]
        options += ["--workers", str(workers)]
        with _running("-c", start, *options) as (url, process):
            yield url
            process.terminate()
            assert process.wait(timeout=60) == 0


@contextmanager
def bare() -> Iterator[str]:
    """Run a server that only reads: the floor."""
    script = Path(__file__).with_name("_bare.py")
    with _running(str(script)) as (url, _):
        yield url


@contextmanager
def _running(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, *arguments], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        found = None
        while found is None:
            line = process.stderr.readline()
            assert line, "the server did not start"
            found = re.search(r"http://\S+", line)
        yield found[0], process
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stderr.close()


def wrk(
    url: str,
    body: bytes,
    kind: str,
    *,
    connections: int,
    seconds: float,
    accept: str = "application/json",
    threads: int = 1,
) -> dict[str, float]:
    """Send the same request again and again; return latencies and rates."""
    with tempfile.TemporaryDirectory() as folder:
        content, script = Path(folder) / "body", Path(folder) / "post.lua"
        content.write_bytes(body)
        script.write_text(
            f'local file = io.open("{content}", "rb")\n'
            'wrk.method = "POST"\nwrk.body = file:read("*all")\n'
            f'wrk.headers["Content-Type"] = "{kind}"\n'
            f'wrk.headers["Accept"] = "{accept}"\n'
            "done = function(summary, latency)\n"
            "  local e = summary.errors\n"
            '  print(string.format("RESULT %d %d %f %f %f", summary.requests,\n'
            "    e.connect + e.read + e.write + e.status + e.timeout,\n"
            "    latency:percentile(50), latency:percentile(99), summary.duration))\n"
            "end\n"
        )
        done = subprocess.run(  # noqa: S603
            [
                shutil.which("wrk") or "wrk",
                f"-t{threads}",
                f"-c{connections}",
                f"-d{max(1, round(seconds))}s",
                "--timeout=30s",
                f"-s{script}",
                f"{url}/predict",
            ],
            check=True,
            capture_output=True,
            text=True,
        )
    found = re.search(r"RESULT (\d+) (\d+) (\S+) (\S+) (\S+)", done.stdout)
    assert found, done.stdout
    n, errors, p50, p99, duration = map(float, found.groups())
    return {
        "n": n,
        "errors": errors,
        "p50": p50 / 1e3,
        "p99": p99 / 1e3,
        "rate": n / (duration / 1e6),
    }


def single(case: Case, connections: int, seconds: float) -> str:
    """Measure single samples as JSON."""
    one = case.split(2, 1)
    rows = {"logits": one.logits.round(4).tolist()}
    if one.features is not None:
        rows["features"] = one.features.round(4).tolist()
    body = httpx.Request("POST", "http://x", json=rows).content
    with serving(case.rejector()) as url:
        wrk(url, body, "application/json", connections=connections, seconds=1)
        found = wrk(
            url, body, "application/json", connections=connections, seconds=seconds
        )
    return (
        f"| {case.name} | {len(body) / 1e3:.1f} kB | {connections} | "
        f"{found['p50']:.2f} ms | {found['p99']:.2f} ms | {found['rate']:.0f} | "
        f"{found['errors']:.0f} of {found['n']:.0f} |"
    )


def batches(case: Case, seconds: float, workers: int) -> str:
    """Measure batches of 256, and `predict` on the same in this process.

    In turns, several times, and the best of each: the machine has other users.
    """
    rejector = case.rejector()
    new = case.split(2, N_BATCH)
    arrays = {"logits": new.logits}
    if new.features is not None:
        arrays["features"] = new.features
    outputs = Outputs(**arrays)
    stream = io.BytesIO()
    is_one = len(arrays) == 1
    if is_one:
        np.save(stream, new.logits)
    else:
        np.savez(stream, **arrays)
    body = stream.getvalue()

    def load(
        url: str, accept: str, connections: int = 2, threads: int = 1
    ) -> dict[str, float]:
        found = wrk(
            url,
            body,
            "application/x-npy" if is_one else "application/x-npz",
            connections=connections,
            seconds=seconds / ROUNDS,
            accept=accept,
            threads=threads,
        )
        if url != floor_url:
            wait_until_idle(url)
        return found

    here, floor, json, npy, many = [], [], [], [], []
    with (
        serving(rejector) as url,
        serving(rejector, workers) as many_url,
        bare() as floor_url,
    ):
        for _ in range(ROUNDS + 1):
            here.append(rate_of(lambda: rejector.predict(outputs), seconds / ROUNDS))
            floor.append(load(floor_url, "application/json")["rate"])
            json.append(load(url, "application/json"))
            npy.append(load(url, "application/x-npy"))
            many.append(
                load(many_url, "application/x-npy", 8 * workers, wrk_threads(workers))
            )
    rates = [
        max(here[1:]),  # the first round warms up
        max(floor[1:]),
        *(max(found["rate"] for found in one[1:]) for one in (json, npy, many)),
    ]
    least = 1 / (1 / rates[0] + 1 / rates[1])
    assert not sum(found["errors"] for found in json + npy + many)
    return (
        f"| {case.name} | {len(body) / 1e6:.2f} MB | "
        + " | ".join(f"{1e3 / rate:.2f} ms" for rate in rates)
        + "".join(f" | {rates[0] / rate:.1f}×" for rate in (*rates[2:], least))
        + " |"
    )


def wrk_threads(workers: int) -> int:
    """Give the client half as many threads as the server, if there are cores."""
    return max(1, min(workers, CORES - workers) // 2)


def wait_until_idle(url: str) -> None:
    """Wait until what wrk has left behind is answered, and disturbs nobody."""
    count, before = -1.0, -2.0
    while count != before:
        time.sleep(1)
        before = count
        text = httpx.get(f"{url}/metrics", timeout=60).text
        found = re.findall(r'total{path="/predict",status="\d+"} (\S+)', text)
        count = sum(map(float, found))


def rate_of(call: Callable[[], object], seconds: float) -> float:
    """Count calls per second."""
    n, start = 0, time.perf_counter()
    while (took := time.perf_counter() - start) < seconds:
        call()
        n += 1
    return n / took


def endurance(case: Case, requests: int) -> str:
    """Send at least `requests` single samples and count what went wrong."""
    one = case.split(2, 1)
    body = httpx.Request(
        "POST", "http://x", json={"logits": one.logits.round(4).tolist()}
    ).content
    total, errors, rate, tail = 0.0, 0.0, 1000.0, 0.0
    with serving(case.rejector()) as url:
        while total < requests:
            seconds = min(60.0, (requests - total) / rate + 1)
            found = wrk(url, body, "application/json", connections=16, seconds=seconds)
            total, errors, rate = (
                total + found["n"],
                errors + found["errors"],
                found["rate"],
            )
            tail = max(tail, found["p99"])
        served = httpx.get(url + "/metrics").text
    counted = re.search(r'path="/predict",status="200"} (\S+)', served)
    assert counted is not None
    return (
        f"{total:.0f} requests over 16 connections ({case.name}): {errors:.0f} errors, "
        f"p99 {tail:.1f} ms, {rate:.0f} requests/s; the server's own count of answers "
        f"with status 200 is {float(counted[1]):.0f}, the difference being requests in "
        f"flight when wrk stopped counting."
    )


def main() -> None:
    """Measure, print and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--workers", type=int, default=CORES, help="processes")
    arguments = parser.parse_args()
    n = arguments.workers
    lines = [
        f"## Serving, {CORES} cores",
        "",
        f"`python benchmarks/serving.py` on {machine()}; uvicorn {version('uvicorn')} "
        f"(httptools {version('httptools')}), fastapi {version('fastapi')}, "
        f"numpy {np.__version__}. One "
        "server process but where said; wrk on the same machine shares its cores.",
        "",
        "Single samples as JSON:",
        "",
        "| | body | connections | p50 | p99 | requests/s | errors |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in SINGLE:
        for connections in (1, 16):
            lines.append(single(case, connections, arguments.seconds))
            print(lines[-1], flush=True)
    lines += [
        "",
        f"Batches of {N_BATCH} as `.npy` (`.npz` if there are features) over two "
        "connections, answered as JSON and as `.npy` (decisions alone, which is what "
        "`predict` returns), beside `predict` called on the same arrays in one "
        "process; time per batch, the best of "
        f"{ROUNDS} rounds in turns. *{n} processes*: `--workers {n}`, "
        f"{8 * n} connections from {wrk_threads(n)} threads, `.npy`. *Bare* is "
        "a server on plain sockets that reads the same bytes and does nothing. The "
        "ratios are over `predict`; the aim "
        "is at most 2×. The floor is `predict` after a bare transfer, one after the "
        "other, with no HTTP at all.",
        "",
        "| | body | predict | bare | HTTP, JSON | HTTP, `.npy` | "
        f"{n} processes | ratio, JSON | ratio, `.npy` | ratio, {n} "
        "processes | floor |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in BATCHES:
        lines.append(batches(case, arguments.seconds, n))
        print(lines[-1], flush=True)
    lines += ["", endurance(SINGLE[0], arguments.requests)]
    print(lines[-1], flush=True)
    put_section(f"serving, {CORES} cores", "\n".join(lines))


if __name__ == "__main__":
    main()
