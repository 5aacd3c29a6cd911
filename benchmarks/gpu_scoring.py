"""Scores from logits on a GPU, beside a copy of the logits on the device.

    PYTHONPATH=src python benchmarks/gpu_scoring.py
    PYTHONPATH=src python benchmarks/gpu_scoring.py --device cpu --n 2000 --classes 100

The first line measures (about a minute on an H200) and puts the table on
benchmarks/README.md; the second takes the same steps without a GPU and writes nothing.
On a machine that is lent, `--out FOLDER` keeps the numbers in `gpu_scoring.json`, and
`--read FOLDER/gpu_scoring.json` makes the table of them. *Before* is the plain path
(one array operation after another), *after* the kernels of
`openset.detectors._row_kernels`. Both are compared with NumPy on the first rows; the
script exits with 1 if they differ.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _measure import machine, need_device, put_section, seconds

from openset import Outputs
from openset.detectors import Batch, Fitted, _fused, make, score_all

N = 1_000_000
FIVE = ("msp", "maxlogit", "energy", "gen", "postmax")
ROWS_COMPARED = 20_000
# Float32 sums in another order, and the device's fast exponential.
TOLERANCE = 2e-5


@contextmanager
def plain_path() -> Iterator[None]:
    """Score without the kernels."""
    before, _fused.KERNELS.problem = _fused.KERNELS.problem, "turned off here"
    try:
        yield
    finally:
        _fused.KERNELS.problem = before


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
    columns = []
    for start in range(0, len(outputs), size):
        batch = Batch(outputs, slice(start, min(start + size, len(outputs))))
        columns.append([batch.top_class, *(f.known_of_batch(batch) for f in fitted)])
    return columns


def times(function: Callable[[], object], device: str, repeats: int) -> list[float]:
    """Wall times after a warm-up, the device's work included."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(2):
        function()
    wait()
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        wait()
        taken.append(time.perf_counter() - start)
        del result
    return taken


def differences(outputs: Outputs, fitted: list[Fitted]) -> dict[str, float]:
    """Largest difference from NumPy, relative to the size of the number."""
    few = outputs.take(slice(0, ROWS_COMPARED))
    here = few.to("numpy")
    expected = score_all([f.to(here.logits) for f in fitted], here)
    got = score_all(fitted, few)
    return {
        name: _apart(got[name].known, expected[name].known)
        + float(np.any(got[name].predicted != expected[name].predicted))
        for name in got
    }


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    differ = a != b  # equal infinities do not
    size = np.maximum(np.abs(b[differ]), 1)
    return float(np.max(np.abs(a[differ] - b[differ]) / size, initial=0))


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """Measure everything; the result is the content of the JSON file."""
    device, repeats = args.device, args.repeats
    outputs = made_up(args.n, args.classes, args.features, device)
    some = outputs.take(slice(0, min(args.n, 5000)))
    # PostMax is fitted to correct samples: the labels are the classes of the bumps.
    fitted = [make(name).fit(some) for name in FIVE]
    rows: dict[str, list[float]] = {}

    def measure(name: str, function: Callable[[], object]) -> None:
        rows[name] = times(function, device, repeats)
        best = min(rows[name])
        ratio = best / min(rows["copy of the logits"])
        print(f"{name:40} {seconds(best):>10} {ratio:6.2f} copies", flush=True)

    measure("copy of the logits", outputs.logits.clone)
    for path in ("before", "after"):
        for size in (args.batch, args.n):
            where = f"{path}, batches of {size}"
            for chosen in (*([f] for f in fitted), fitted):
                name = chosen[0].detector.name if len(chosen) == 1 else "all five"

                def run(chosen: list[Fitted] = chosen, size: int = size) -> object:
                    return on_device(chosen, outputs, size)

                if path == "before":
                    if size != args.batch:
                        continue  # temporaries of the plain path would not fit
                    with plain_path():
                        measure(f"{name}, {where}", run)
                else:
                    measure(f"{name}, {where}", run)
    parts = on_device(fitted, outputs, args.batch)
    columns = [torch.cat(part) for part in zip(*parts, strict=True)]
    measure("transfer of one column", columns[1].cpu)
    measure("transfer of six columns", lambda: [c.cpu() for c in columns])
    for path in ("before", "after"):
        for chosen in (fitted[:1], fitted):
            name = "msp" if len(chosen) == 1 else "all five"

            def whole(chosen: list[Fitted] = chosen) -> object:
                return score_all(chosen, outputs)

            if path == "before":
                with plain_path():
                    measure(f"{name} to Scores, {path}", whole)
            else:
                measure(f"{name} to Scores, {path}", whole)
    off = {"after": differences(outputs, fitted)}
    with plain_path():
        off["before"] = differences(outputs, fitted)
    name = torch.cuda.get_device_name() if device == "cuda" else device
    return {
        "kernels": kernel_times(outputs, repeats) if device == "cuda" else {},
        "machine": f"{name}, {machine()}, torch {torch.__version__}",
        "shape": [args.n, args.classes, args.features],
        "batch": args.batch,
        "repeats": repeats,
        "problem": _fused.KERNELS.problem,
        "seconds": rows,
        "differences": off,
    }


def kernel_times(outputs: Outputs, repeats: int) -> dict[str, float]:
    """Time each kernel alone; the best number of columns a warp is a constant there."""
    kernels = _fused.KERNELS.load()
    if kernels is None:
        return {}
    batch = Batch(outputs)
    needed = (batch.top_class, batch.energy)
    default, found = dict(kernels._COLUMNS_PER_WARP), {}
    for per_warp in (1024, 512, 256, 128):
        kernels._COLUMNS_PER_WARP = dict.fromkeys(default, per_warp)
        for name, kernel in (
            ("reduce", lambda: kernels.reduce_rows(outputs.logits)),
            (
                "entropy",
                lambda: kernels.entropy_of_others(
                    outputs.logits, *needed, kept=99, gamma=0.1
                ),
            ),
        ):
            taken = min(times(kernel, "cuda", repeats))
            found[f"{name}, {per_warp} columns a warp"] = taken
            print(f"kernel {name}, {per_warp} columns a warp: {seconds(taken)}")
    kernels._COLUMNS_PER_WARP = default
    return found


def page(found: dict[str, Any]) -> str:
    """Write the table."""
    n, n_classes, width = found["shape"]
    copy = min(found["seconds"]["copy of the logits"])
    lines = [
        "## Scoring on a GPU",
        "",
        f"`python benchmarks/gpu_scoring.py` on {found['machine']}.",
        "",
        f"{n} × {n_classes} float32 logits, {width} features, all on the device. "
        "*Before* is the plain path, *after* the fused kernels; *to Scores* adds the "
        "transfer and the checks of `Scores` on the CPU.",
        "",
        f"| | best of {found['repeats']} | median | copies |",
        "|---|---|---|---|",
    ]
    for name, taken in found["seconds"].items():
        best, median = min(taken), statistics.median(taken)
        lines.append(
            f"| {name} | {seconds(best)} | {seconds(median)} | {best / copy:.2f} |"
        )
    worst = max(found["differences"]["after"].values())
    lines += [
        "",
        "Each kernel alone, by the columns that one warp holds. In use: 1024 for "
        "`reduce`, 512 for `entropy` (the kernel of GEN).",
        "",
    ]
    lines += [f"- {name}: {seconds(taken)}" for name, taken in found["kernels"].items()]
    lines += [
        "",
        f"Largest relative difference from NumPy on {ROWS_COMPARED} rows: {worst:.1e}.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, or write down what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--n", type=int, default=N)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--batch", type=int, default=44_384)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--read", type=Path)
    args = parser.parse_args()
    if args.read:
        put_section("gpu scoring", page(json.loads(args.read.read_text())))
        return
    small = "gpu_scoring.py --device cpu --n 2000 --classes 100 --repeats 2"
    need_device(args.device, trial=small)
    found = measured(args)
    print(json.dumps(found["differences"], indent=1))
    if found["problem"]:
        print(f"the kernels were not used: {found['problem']}")
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "gpu_scoring.json").write_text(json.dumps(found, indent=1))
    if args.device != "cpu" and args.n == N:  # trials are not written down
        put_section("gpu scoring", page(found))
    worst = max(max(of.values()) for of in found["differences"].values())
    sys.exit(int(worst > TOLERANCE or bool(found["problem"])))


if __name__ == "__main__":
    main()
