"""Every method that pytorch-ood has too: how much longer it takes there.

    python benchmarks/peers.py [--device cpu|cuda] [--shrink 10] [--only knn vim]
                               [--repeats 15]

Fitting and scoring of both packages take turns in one process, after a warm-up. A time
is the median of the turns. A ratio is the median of the ratios of the turns, with their
quartiles: other work on the machine slows both sides of a turn. Ours gets the outputs
of a network (logits and features), as NumPy arrays on the CPU and tensors on a GPU.
pytorch-ood gets tensors: logits where its method takes them, else features, from which
it computes the logits it needs. It scores in batches of 1000 samples (GMM: 250, to fit
in memory), as a data loader would give them. Where both take a parameter it has the
same value. Nothing is written if something was shrunk or left out. `mcm` is not
compared: there it takes embeddings of texts, here logits.

pytorch-ood is pure Python: a machine without a package index can be given its folder of
site-packages (with torchmetrics, lightning-utilities and typing-extensions) on
PYTHONPATH.
"""

import argparse
import statistics
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from _measure import (
    let_torchvision_import,
    machine,
    need_device,
    save_claim,
    seconds,
)

from openset import Outputs
from openset.detectors import make

N_CLASSES, WIDTH = 100, 512
N_TRAIN, N_TEST = 20_000, 20_000
BATCH, SMALL_BATCH = 1000, 250
REPEATS = 7
PATIENCE = 30  # seconds for all turns of a fit or a score

Call = Callable[[], object]
Times = dict[str, list[float]]


def network(n: int, seed: int) -> Outputs:
    """Make float32 outputs of a linear head on clustered, non-negative features."""
    head = np.random.default_rng(0)
    weight = head.standard_normal((N_CLASSES, WIDTH), dtype=np.float32) / 8
    bias = head.standard_normal(N_CLASSES, dtype=np.float32) / 8
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % N_CLASSES
    features = rng.standard_normal((n, WIDTH), dtype=np.float32)
    features += 2 * weight[labels]  # so that most samples are classified correctly
    np.maximum(features, 0, out=features)
    logits = features @ weight.T + bias
    return Outputs(
        logits=logits, features=features, labels=labels, weight=weight, bias=bias
    )


@dataclass
class Bench:
    """Where to compute, how much, and by which clock."""

    device: str
    shrink: int
    cpu_time: bool = False
    repeats: int = REPEATS

    @property
    def on_gpu(self) -> bool:
        """Tell whether arrays are torch's, on an accelerator."""
        return self.device != "cpu"

    def outputs(self, n: int, seed: int) -> Outputs:
        """Make outputs where this run computes."""
        made = network(max(n // self.shrink, 64), seed)
        if not self.on_gpu:
            return made
        import torch

        arrays = {
            name: torch.from_numpy(np.array(getattr(made, name))).to(self.device)
            for name in ("logits", "features", "weight", "bias")
        }
        return Outputs(**arrays, labels=made.labels)

    def wait(self) -> None:
        """Wait for the accelerator."""
        if self.on_gpu:
            import torch

            torch.cuda.synchronize()


@dataclass(frozen=True)
class Peer:
    """One method of pytorch-ood: how to build, fit and score it."""

    make: Callable[[], Any]
    fit: Callable[[Any], object] | None
    score: Callable[[Any], object]


def peers_of(train: Outputs, test: Outputs, device: str) -> dict[str, Peer]:
    """Give pytorch-ood's methods on the same data, by our names."""
    let_torchvision_import()
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pytorch_ood import detector as other

    def tensor(array: Any) -> Any:
        values = np.array(array) if isinstance(array, np.ndarray) else array
        return torch.as_tensor(values, device=device)

    z, f = tensor(train.logits), tensor(train.features)
    new_z, new_f = tensor(test.logits), tensor(test.features)
    weight, bias = tensor(train.weight), tensor(train.bias)
    labels = torch.tensor(np.array(train.labels), device=device)
    maps, new_maps = f[:, :, None, None], new_f[:, :, None, None]
    linear = torch.nn.Linear(WIDTH, N_CLASSES, device=device)
    linear.weight.data, linear.bias.data = weight, bias

    def head(x: Any) -> Any:
        return x.flatten(1).to(weight.device) @ weight.T + bias

    def run(method: str, x: Any, size: int = BATCH) -> Callable[[Any], object]:
        def score(one: Any) -> object:
            with torch.no_grad():
                return torch.cat([getattr(one, method)(b) for b in x.split(size)])

        return score

    def on_logits(kind: Callable[[], Any], *, fits: bool = False) -> Peer:
        fit = (lambda one: one.fit_logits(z, labels)) if fits else None
        return Peer(kind, fit, run("predict_logits", new_z))

    def on_features(
        kind: Callable[[], Any], *, fits: bool = True, size: int = BATCH
    ) -> Peer:
        fit = (lambda one: one.fit_features(f, labels)) if fits else None
        return Peer(kind, fit, run("predict_features", new_f, size))

    def on_maps(kind: Callable[[], Any], *, fits: bool) -> Peer:
        fit = (lambda one: one.fit_feature_maps(maps, labels)) if fits else None
        return Peer(kind, fit, run("predict_feature_maps", new_maps))

    def gradnorm() -> Any:
        found = other.GradNorm(linear, param_filter=lambda name: name == "weight")
        return found.to(device)

    return {
        "msp": on_logits(lambda: other.MaxSoftmax(None)),
        "maxlogit": on_logits(lambda: other.MaxLogit(None)),
        "energy": on_logits(lambda: other.EnergyBased(None)),
        "entropy": on_logits(lambda: other.Entropy(None)),
        "gen": on_logits(lambda: other.GEN(None)),
        "klm": on_logits(lambda: other.KLMatching(None), fits=True),
        "temperature": on_logits(
            lambda: other.TemperatureScaling(None).to(device), fits=True
        ),
        "openmax": on_logits(lambda: other.OpenMax(None, tailsize=20), fits=True),
        "gradnorm": Peer(gradnorm, None, run("predict", new_f)),
        "react": on_maps(
            lambda: other.ReAct(lambda x: x, head, percentile=0.9), fits=True
        ),
        "vra": on_maps(lambda: other.VRA(lambda x: x, head), fits=True),
        "scale": on_maps(
            lambda: other.SCALE(lambda x: x, head, percentile=0.85), fits=False
        ),
        "ash": on_maps(
            lambda: other.ASH(lambda x: x, head, variant="ash-s", percentile=0.9),
            fits=False,
        ),
        "lts": on_features(lambda: other.LTS(None, linear), fits=False),
        "dice": on_features(lambda: other.DICE(None, weight, bias, 0.9)),
        "she": on_features(lambda: other.SHE(None, linear)),
        "fdbd": on_features(lambda: other.fDBD(None, linear)),
        "nci": on_features(lambda: other.NCI(None, linear)),
        "vim": on_features(lambda: other.ViM(None, 256, weight, bias)),
        "knn": on_features(lambda: other.KNN(None, k=50)),
        "nnguide": on_features(lambda: other.NNGuide(None, linear, k=10)),
        "mahalanobis": on_features(lambda: other.Mahalanobis(None)),
        "rmds": on_features(lambda: other.RMD(None)),
        "gmm": on_features(lambda: other.GMM(None), size=SMALL_BATCH),
        "pnml": on_features(lambda: other.PNML(None, linear)),
    }


OURS = {
    "vim": {"dim": 256},
    "vra": {"low": 1, "high": 99, "below": "clip"},
}
"""Parameters of ours that are not the default: those of the peer."""


def measure(
    bench: Bench, name: str, peer: Peer, train: Outputs, test: Outputs
) -> Times:
    """Time fitting and scoring of both, in turns."""
    recipe = make(name, **OURS.get(name, {}))
    ours, theirs = recipe.fit(train), peer.make()
    found: Times = {}
    if peer.fit is not None:
        peer.fit(theirs)
        times = turns(
            bench,
            {
                "our fit": lambda: recipe.fit(train),
                "their fit": lambda: peer.fit(peer.make()),
            },
        )
        found |= times
    return found | turns(
        bench,
        {
            "our score": lambda: ours.known(test),
            "their score": lambda: peer.score(theirs),
        },
    )


def turns(bench: Bench, functions: dict[str, Call]) -> Times:
    """Return the time of each function in each turn but the first, which warms up."""
    clock = time.process_time if bench.cpu_time else time.perf_counter
    times: Times = {name: [] for name in functions}
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for turn in range(1 + bench.repeats):
            # A slow method has fewer turns: one, if it takes minutes.
            if turn > 1 and time.perf_counter() - start > PATIENCE:
                break
            for name, function in functions.items():
                begin = clock()
                function()
                bench.wait()
                times[name].append(clock() - begin)
    return {name: values[1:] for name, values in times.items()}


def row(name: str, found: Times) -> dict[str, str]:
    """Return one row: ratios above 1 say that ours is faster."""
    cells = {"method": name}
    for what in ("fit", "score"):
        if f"our {what}" in found:
            ours, theirs = found[f"our {what}"], found[f"their {what}"]
            cells[f"{what}, ours"] = seconds(statistics.median(ours))
            cells[f"{what}, pytorch-ood"] = seconds(statistics.median(theirs))
            cells[f"{what}, ratio"] = ratio(ours, theirs)
    return cells


def ratio(ours: list[float], theirs: list[float]) -> str:
    """Write the median ratio of the turns, their quartiles and their number."""
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    digits = 2 if middle < 10 else 0
    found = f"{middle:.{digits}f}"
    if len(ratios) > 2:
        found += f" ({low:.{digits}f}–{high:.{digits}f})"
    return f"{found}, {len(ratios)}"


def _where(error: Exception) -> str:
    """Name the file that raised an error."""
    return traceback.extract_tb(error.__traceback__)[-1].filename


def main() -> None:
    """Measure the methods that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--shrink", type=int, default=1, help="divide all sizes")
    parser.add_argument("--only", nargs="+", help="our names of methods")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="turns at most")
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="processor time instead of wall time, for a busy machine; set "
        "OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1",
    )
    arguments = parser.parse_args()
    need_device(arguments.device, trial="peers.py --shrink 20")
    bench = Bench(
        device=arguments.device,
        shrink=arguments.shrink,
        cpu_time=arguments.cpu_time,
        repeats=arguments.repeats,
    )
    train, test = bench.outputs(N_TRAIN, 1), bench.outputs(N_TEST, 2)
    peers = peers_of(train, test, arguments.device)
    rows = []
    for name in arguments.only or peers:
        try:
            found = measure(bench, name, peers[name], train, test)
        except (RuntimeError, TypeError) as error:
            if not bench.on_gpu or "pytorch_ood" not in _where(error):
                raise
            refused = "pytorch-ood's does not run on a GPU"
            rows.append({"method": name, "fit, ours": refused})
        else:
            rows.append(row(name, found))
        print(rows[-1], flush=True)
    if arguments.shrink == 1 and not arguments.only:
        import torch

        gpu = f"{torch.cuda.get_device_name()}, " if bench.on_gpu else ""
        clock = "processor time of one thread" if bench.cpu_time else "wall time"
        on_cpu = "peers" if bench.cpu_time else "peers-all-cores"
        save_claim(
            "peers-cuda" if bench.on_gpu else on_cpu,
            "Every method that pytorch-ood has too: their time over ours, median of "
            f"the turns (quartiles), number of turns; {clock}.",
            rows,
            machine=gpu + machine(),
            data=f"{len(train)} samples to fit, {len(test)} to score, {N_CLASSES} "
            f"classes, {WIDTH} features, float32",
            n=f"at most {bench.repeats} turns",
            seeds=[1, 2],
        )


if __name__ == "__main__":
    main()
