"""Detectors beside the least they could cost, and beside their peers.

    python benchmarks/detectors.py [--device cpu|cuda] [--shrink 10] [--only search]

Each case puts its rows side by side in one process: after a warm-up the functions take
turns, and a row is the median of its turns, so that a busy minute hits all rows. Peers
that are not installed are left out. Writes its tables to benchmarks/README.md.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _measure import (
    in_fresh_process,
    let_torchvision_import,
    machine,
    need_device,
    put_section,
    seconds,
)

from openset import Outputs
from openset.detectors import KNN, NNGuide, make, names, score_all

N_CLASSES, WIDTH = 1000, 512
SIX = ("msp", "maxlogit", "energy", "gen", "postmax", "openmax")
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch", "pytorch-ood")


@dataclass
class Bench:
    """Where to compute, and how much."""

    device: str
    shrink: int
    rows: list[str] = field(default_factory=list)

    def n(self, full: int) -> int:
        """Return a size, shrunk for a trial run."""
        return max(full // self.shrink, 64)

    @property
    def on_gpu(self) -> bool:
        """Tell whether arrays are torch's, on an accelerator."""
        return self.device != "cpu"

    def array(self, values: np.ndarray) -> Any:
        """Put an array where this run computes."""
        if not self.on_gpu:
            return values
        import torch

        return torch.from_numpy(values).to(self.device)

    def outputs(self, outputs: Outputs) -> Outputs:
        """Put outputs where this run computes."""
        arrays = {
            name: self.array(np.array(getattr(outputs, name)))
            for name in ("logits", "features", "weight", "bias")
            if getattr(outputs, name) is not None
        }
        return Outputs(**arrays, labels=outputs.labels)

    def wait(self) -> None:
        """Wait for the accelerator."""
        if self.on_gpu:
            import torch

            torch.cuda.synchronize()

    def side_by_side(
        self, functions: dict[str, Callable[[], object]], repeats: int
    ) -> dict[str, list[float]]:
        """Time the functions in turns."""
        for function in functions.values():
            function()
        self.wait()
        times: dict[str, list[float]] = {name: [] for name in functions}
        for _ in range(repeats):
            for name, function in functions.items():
                start = time.perf_counter()
                result = function()
                self.wait()
                times[name].append(time.perf_counter() - start)
                del result
        return times

    def table(
        self, title: str, times: dict[str, list[float]], against: str, bars: dict
    ) -> None:
        """Add a table: median, spread and the ratio to one of the rows.

        The second ratio, of the fastest turns, tells how much of the first is due to
        what else the machine was doing.
        """
        bound, least = statistics.median(times[against]), min(times[against])
        lines = [
            f"### {title}",
            "",
            f"| | median of {len(times[against])} | fastest – slowest | ratio | "
            "ratio of the fastest | aim |",
            "|---|---|---|---|---|---|",
        ]
        for name, values in times.items():
            median = statistics.median(values)
            spread = f"{seconds(min(values))} – {seconds(max(values))}"
            lines.append(
                f"| {name} | {seconds(median)} | {spread} | {median / bound:.2f} | "
                f"{min(values) / least:.2f} | {bars.get(name, '')} |"
            )
        self.add("\n".join(lines))

    def add(self, text: str) -> None:
        """Keep a paragraph for the page, and show it."""
        self.rows.append(text)
        print(text, end="\n\n", flush=True)


def network(n: int, *, seed: int = 0) -> Outputs:
    """Make float32 outputs of a linear head on non-negative features."""
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((N_CLASSES, WIDTH), dtype=np.float32) / 8
    bias = rng.standard_normal(N_CLASSES, dtype=np.float32) / 8
    features = rng.standard_normal((n, WIDTH), dtype=np.float32)
    np.maximum(features, 0, out=features)
    logits = features @ weight.T
    logits += bias
    labels = logits.argmax(axis=1)
    return Outputs(
        logits=logits, features=features, labels=labels, weight=weight, bias=bias
    )


def copy_of(array: Any) -> Callable[[], object]:
    """Return a copy into memory that is there already."""
    if isinstance(array, np.ndarray):
        target = np.empty_like(array)
        return lambda: np.copyto(target, array)
    target = array.clone()
    return lambda: target.copy_(array)


def product_of(queries: Any, bank: Any) -> Callable[[], object]:
    """Return the bare matrix product into memory that is there already."""
    if isinstance(bank, np.ndarray):
        target = np.empty((len(queries), len(bank)), dtype=bank.dtype)
        return lambda: np.matmul(queries, bank.T, out=target)
    import torch

    target = queries @ bank.T
    return lambda: torch.matmul(queries, bank.T, out=target)


def scoring(bench: Bench) -> None:
    """MaxLogit and PostMax beside a copy of the logits."""
    n = bench.n(1_000_000 if bench.on_gpu else 200_000)
    outputs = bench.outputs(network(n))
    functions: dict[str, Callable[[], object]] = {
        "bound: copy of the logits": copy_of(outputs.logits)
    }
    kinds = [name for name in ("maxlogit", "postmax", "msp") if name in names()]
    for name in kinds:
        fitted = make(name).fit(outputs.take(slice(0, min(n, 20_000))))
        functions[name] = lambda fitted=fitted: fitted.score(outputs)
    times = bench.side_by_side(functions, 7)
    title = f"Scoring {n} × {N_CLASSES} float32 logits, argmax included"
    # The bars are those of a CPU; results travel to the host as Scores in any case.
    bars = {} if bench.on_gpu else {"maxlogit": "2", "postmax": "2"}
    bench.table(title, times, "bound: copy of the logits", bars)


def together(bench: Bench) -> None:
    """Score the six logit methods in one pass, beside each of them alone."""
    n = bench.n(400_000 if bench.on_gpu else 100_000)
    outputs = bench.outputs(network(n))
    part = outputs.take(slice(0, min(n, 20_000)))
    kinds = [name for name in (*SIX, "scale") if name in names()]
    fitted = {name: make(name).fit(part) for name in kinds}
    six = {name: one for name, one in fitted.items() if name in SIX}
    functions: dict[str, Callable[[], object]] = {
        name: lambda one=one: one.score(outputs) for name, one in fitted.items()
    }
    everything = f"score_all of {', '.join(six)}"
    functions[everything] = lambda: score_all(six, outputs)
    cheap = {name: one for name, one in fitted.items() if name != "openmax"}
    others = f"score_all of {', '.join(cheap)}"
    functions[others] = lambda: score_all(cheap, outputs)
    times = bench.side_by_side(functions, 5)
    medians = {name: statistics.median(times[name]) for name in six}
    slowest = max(medians, key=medians.__getitem__)
    title = f"Several methods on {n} × {N_CLASSES} logits, {n} × {WIDTH} features"
    bench.table(title, times, slowest, {} if bench.on_gpu else {everything: "1.5"})
    heaviest = max(cheap, key=lambda name: statistics.median(times[name]))
    ratio = statistics.median(times[others]) / statistics.median(times[heaviest])
    bench.add(f"With scale instead of openmax: {ratio:.2f}× {heaviest} alone.")


def distances(bench: Bench) -> None:
    """OpenMax beside the distances it needs: ten class means a sample, in float64."""
    if bench.on_gpu:
        return
    n = bench.n(20_000)
    outputs = network(n)
    fitted = make("openmax").fit(outputs)
    means = fitted.state["means"].astype(np.float64)
    rows = outputs.logits.astype(np.float64)
    tops = np.argsort(-outputs.logits, axis=1)[:, :10]

    def bound() -> None:
        for start in range(0, n, 64):  # temporaries stay in cache
            part = rows[start : start + 64]
            for top in tops[start : start + 64].T:
                centres = np.take(means, top, axis=0)
                np.einsum("ij,ij->i", part, centres)
                centres -= part
                np.einsum("ij,ij->i", centres, centres)

    name = "bound: read ten class means, inner product, distance"
    times = bench.side_by_side(
        {name: bound, "openmax": lambda: fitted.known(outputs)}, 7
    )
    bench.table(f"OpenMax on {n} × {N_CLASSES} logits", times, name, {"openmax": "2"})


def search(bench: Bench) -> None:
    """KNN and NNGuide beside the bare matrix product and pytorch-ood."""
    n_bank, n = bench.n(50_000), bench.n(10_000)
    bank, test = bench.outputs(network(n_bank)), bench.outputs(network(n, seed=1))
    functions: dict[str, Callable[[], object]] = {
        "bound: bare matrix product": product_of(test.features, bank.features)
    }
    k = min(50, n_bank)
    fits = {f"KNN, k = {k}": KNN(k=k), "NNGuide, k = 10": NNGuide()}
    for name, detector in fits.items():
        fitted = detector.fit(bank)
        functions[name] = lambda fitted=fitted: fitted.score(test)
    functions |= search_peers(bank, test, k)
    times = bench.side_by_side(functions, 5)
    title = f"{n} queries, a bank of {n_bank} × {WIDTH} float32"
    bars = dict.fromkeys(fits, "1.3")
    bench.table(title, times, "bound: bare matrix product", bars)


def search_peers(bank: Outputs, test: Outputs, k: int) -> dict[str, Callable]:
    """Give pytorch-ood's KNN and NNGuide on the same data, where it is installed."""
    if find_spec("pytorch_ood") is None:
        return {}
    let_torchvision_import()
    import torch
    from pytorch_ood import detector as peers

    def tensor(array: Any) -> Any:
        return torch.as_tensor(
            np.array(array) if isinstance(array, np.ndarray) else array
        )

    features, queries = tensor(bank.features), tensor(test.features)
    weight, bias = tensor(bank.weight), tensor(bank.bias)
    labels = torch.tensor(np.array(bank.labels))
    knn = peers.KNN(None, k=k).fit_features(features.cpu(), labels)
    guide = peers.NNGuide(None, lambda z: z @ weight.T + bias, k=10)
    guide.fit_features(features, labels)
    return {
        f"pytorch-ood KNN, k = {k}": lambda: knn.predict_features(queries),
        "pytorch-ood NNGuide, k = 10": lambda: guide.predict_features(queries),
    }


def tail_fit(bench: Bench) -> None:
    """`fit_gpd` beside SciPy's free fit."""
    if bench.on_gpu:  # runs on the CPU wherever the arrays are
        return
    from scipy import stats

    from openset.detectors.evt import fit_gpd

    n = bench.n(1_280_000)
    x = np.random.default_rng(0).gamma(4.0, 0.1, size=n)
    likelihood: dict[str, float] = {}

    def ours() -> None:
        likelihood["fit_gpd"] = float(fit_gpd(x).loglik)

    def scipy() -> None:
        law = stats.genpareto.fit(x)
        likelihood["scipy.stats.genpareto.fit"] = float(
            stats.genpareto.logpdf(x, *law).sum()
        )

    functions = {"fit_gpd": ours, "scipy.stats.genpareto.fit": scipy}
    times = bench.side_by_side(functions, 3)
    title = f"Generalised Pareto fit of {n} numbers from a gamma law"
    bars = {"scipy.stats.genpareto.fit": "at least 40"}
    bench.table(title, times, "fit_gpd", bars)
    values = ", ".join(f"{name}: {value:.1f}" for name, value in likelihood.items())
    bench.add(f"Log-likelihood reached: {values}.")


def mapped(bench: Bench) -> None:
    """Score a file larger than the memory it may use, in a fresh process."""
    if bench.on_gpu:
        return
    lines = [
        "### Memory-mapped logits",
        "",
        f"`score_all` of MSP, MaxLogit, Energy and GEN, logits n × {N_CLASSES} float32 "
        "in a (sparse) file; the peak of anonymous memory above the start.",
        "",
        "| n | file | time | memory |",
        "|---|---|---|---|",
    ]
    for full in (25_000, 250_000, 2_500_000):
        n = bench.n(full)
        cell = in_fresh_process(__file__, str(n))
        lines.append(
            f"| {n} | {4 * N_CLASSES * n / 1e9:.1f} GB | {seconds(cell['time'])} | "
            f"{cell['extra'] / 1e6:.0f} MB |"
        )
    bench.add("\n".join(lines))


def mapped_child(n: int) -> dict[str, float]:
    """Score one mapped file and watch the memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "logits.npy"
        shape = (n, N_CLASSES)
        np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
        logits = np.load(path, mmap_mode="r")
        outputs = Outputs(logits=logits, labels=np.zeros(n, dtype=np.int64))
        fitted = [
            make(name).fit(outputs) for name in ("msp", "maxlogit", "energy", "gen")
        ]
        before, peak = anonymous_memory(), [0]
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.005):
                peak[0] = max(peak[0], anonymous_memory())

        watcher = threading.Thread(target=watch)
        watcher.start()
        start = time.perf_counter()
        score_all(fitted, outputs)
        taken = time.perf_counter() - start
        done.set()
        watcher.join()
    return {"time": taken, "extra": float(peak[0] - before)}


def anonymous_memory() -> int:
    """Return the bytes of this process that no file backs."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


CASES = {
    case.__name__: case
    for case in (scoring, together, distances, search, tail_fit, mapped)
}


def versions() -> str:
    """Name the packages that took part."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def place(bench: Bench) -> str:
    """Describe the machine in a line."""
    if not bench.on_gpu:
        return machine()
    import torch

    return f"{torch.cuda.get_device_name()}, {machine()}"


def main() -> None:
    """Run the cases that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--shrink", type=int, default=1, help="divide all sizes")
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--one", help="(a child process) score so many mapped rows")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(mapped_child(int(arguments.one))))
        return
    need_device(arguments.device, trial="detectors.py --shrink 100")
    bench = Bench(device=arguments.device, shrink=arguments.shrink)
    title = "Detectors" if not bench.on_gpu else f"Detectors on {bench.device}"
    command = f"`python benchmarks/detectors.py --device {bench.device}`"
    bench.add(f"## {title}\n\n{command} on {place(bench)}; {versions()}.")
    for name in arguments.only:
        CASES[name](bench)
    if bench.shrink == 1 and set(arguments.only) == set(CASES):
        put_section(title.lower(), "\n\n".join(bench.rows))


if __name__ == "__main__":
    main()
