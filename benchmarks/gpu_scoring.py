"""Scores from logits on a GPU, beside a copy of the logits on the device.

    python benchmarks/gpu_scoring.py
    python benchmarks/gpu_scoring.py --device cpu --n 2000 --classes 100   # tries it

*Plain* is one array operation after another (`OPENSET_ROW_KERNELS=0`, in a process of
its own), *kernels* what runs by default. Both are compared with NumPy on the first
rows; the script exits with 1 if they differ. A trial on the CPU writes nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from _measure import machine, need_device, save_claim

from openset import Outputs
from openset.detectors import Batch, Fitted, make, score_all

N = 1_000_000
FIVE = ("msp", "maxlogit", "energy", "gen", "postmax")
ROWS_COMPARED = 20_000
# Float32 sums in another order, and the device's fast exponential.
TOLERANCE = 2e-5


def made_up(n: int, n_classes: int, width: int, device: str) -> Outputs:
    """Make outputs on the device; the largest logit stands out, as of a network."""
    generator = torch.Generator(device=device).manual_seed(0)
    options: dict[str, Any] = {"device": device, "generator": generator}
    logits = torch.randn(n, n_classes, **options).mul_(2)
    labels = torch.randint(0, n_classes, (n,), **options)
    logits.scatter_add_(1, labels[:, None], 10 * torch.rand(n, 1, **options))
    features = torch.randn(n, width, **options).clamp_(min=0)
    return Outputs(logits=logits, features=features, labels=labels.cpu().numpy())


def on_device(fitted: list[Fitted], outputs: Outputs, size: int) -> list[list[Any]]:
    """Compute classes and knownness; everything stays on the device."""
    like = outputs.logits
    states = [one.prepared(like, like.dtype) for one in fitted]
    pairs = [(one.detector, state) for one, state in zip(fitted, states, strict=True)]
    columns = []
    for start in range(0, len(outputs), size):
        batch = Batch(outputs, slice(start, min(start + size, len(outputs))))
        known = [one.score_batch(state, batch) for one, state in pairs]
        columns.append([batch.top_class, *known])
    return columns


def best(function: Callable[[], object], device: str, repeats: int) -> float:
    """Return the shortest wall time after a warm-up, the device's work included."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    taken = []
    for turn in range(2 + repeats):
        wait()
        start = time.perf_counter()
        result = function()
        wait()
        if turn > 1:
            taken.append(time.perf_counter() - start)
        del result
    return min(taken)


def difference(outputs: Outputs, fitted: list[Fitted]) -> float:
    """Return the largest difference from NumPy, relative to the size of the number."""
    few = outputs.take(slice(0, ROWS_COMPARED))
    here = few.to("numpy")
    expected = score_all(fitted, here)
    got = score_all(fitted, few)
    worst = 0.0
    for name, scores in got.items():
        a, b = scores.known, expected[name].known
        off = np.abs(a - b) / np.maximum(np.abs(b), 1)
        worst = max(worst, float(np.max(np.where(a == b, 0, off))))
    return worst


def measured(args: argparse.Namespace, path: str) -> list[dict[str, Any]]:
    """Measure one of the two paths; one row per case."""
    outputs = made_up(args.n, args.classes, args.features, args.device)
    some = outputs.take(slice(0, min(args.n, 5000)))
    fitted = [make(name).fit(some) for name in FIVE]
    copy = best(outputs.logits.clone, args.device, args.repeats)
    cases: dict[str, Callable[[], object]] = {}
    # Temporaries of the plain path would not fit in one batch.
    for size in (args.batch, args.n) if path == "kernels" else (args.batch,):
        for one in (*([f] for f in fitted), fitted):
            name = "all five" if len(one) > 1 else one[0].detector.name
            cases[f"{name}, {path}, batches of {size}"] = lambda one=one, size=size: (
                on_device(one, outputs, size)
            )
    cases[f"all five to Scores, {path}"] = lambda: score_all(fitted, outputs)
    rows = [{"what": f"copy of the logits, {path}", "best, ms": 1e3 * copy}]
    for name, function in cases.items():
        taken = best(function, args.device, args.repeats)
        rows.append({"what": name, "best, ms": 1e3 * taken, "copies": taken / copy})
    off = {
        "what": f"difference from NumPy, {path}",
        "largest": difference(outputs, fitted),
    }
    return [*rows, off]


def main() -> None:
    """Measure both paths, each in a process of its own; write the claim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--n", type=int, default=N)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--batch", type=int, default=44_384)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--path", choices=["plain", "kernels"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    small = "gpu_scoring.py --device cpu --n 2000 --classes 100 --repeats 2"
    need_device(args.device, trial=small)
    if args.path:
        print(json.dumps(measured(args, args.path)))
        return
    rows = []
    for path, kernels in (("plain", "0"), ("kernels", "1")):
        command = [sys.executable, *sys.argv, "--path", path]
        env = os.environ | {"OPENSET_ROW_KERNELS": kernels}
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=env)  # noqa: S603
        rows += json.loads(done.stdout)
    print(json.dumps(rows, indent=1))
    if args.device != "cpu" and args.n == N:
        save_claim(
            "gpu-scoring",
            "Scores of a million samples on a GPU, in copies of the logits.",
            rows,
            machine=f"{torch.cuda.get_device_name()}, {machine()}",
            data=f"{args.n} × {args.classes} float32 logits, {args.features} features",
            n=f"best of {args.repeats}",
            seeds=[0],
        )
    sys.exit(int(max(row.get("largest", 0) for row in rows) > TOLERANCE))


if __name__ == "__main__":
    main()
