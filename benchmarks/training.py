"""Speed of training: one network, five at once, what OpenAUC costs, what kernels save.

    python benchmarks/training.py --root data --json training.json   # on the GPU
    python benchmarks/training.py --table training.json              # into README.md
    python benchmarks/training.py --root data --kernels              # on and off

CIFAR-10, six known classes (published splits), `classifier32`, batch 128, RandAugment
(1, 6), crop and flip on the GPU, bf16: everything a real run does, logging included,
through `openset.train.fit_jobs`. Speeds are medians over epochs, after the first three
(kernels are chosen, graphs recorded, code compiled in them).

`--kernels` trains the same networks with the Triton kernels of batch norm and LeakyReLU
on and off (``OPENSET_NORM_KERNELS``), turn and turn about in one process, and prints
the ratio of their speeds.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from _measure import put_section
from _training_runs import need_gpu

WARM = 3
# Multiply-adds of the nine convolutions on a 32 x 32 image, forward.
MACS = sum(
    (32 // s) ** 2 * 9 * a * b
    for s, a, b in (
        (1, 3, 64), (1, 64, 64), (2, 64, 128), (2, 128, 128), (2, 128, 128),
        (4, 128, 128), (4, 128, 128), (4, 128, 128), (8, 128, 128),
    )
)  # fmt: skip
# Numbers each convolution writes for one image; 14 passes over them per update if batch
# norm, activation and dropout are fused: 5 forward, 9 backward.
ACTIVATIONS = 2 * 64 * 32**2 + 3 * 128 * 16**2 + 3 * 128 * 8**2 + 128 * 4**2
PASSES = 14


SETTINGS = ("one", "openauc", "one, again", "openauc, again", "five")
SWITCH = "OPENSET_NORM_KERNELS"
TURNS = 3


def speed(data: Any, setting: str, epochs: int, *, compiled: bool) -> float:
    """Train for a few epochs; return samples per second of all runs together."""
    from openset import train

    method = "openauc" if setting.startswith("openauc") else "ceplus"
    options = {"preset": "released"} if method == "openauc" else {}
    splits = [0, 1, 2, 3, 4] if setting == "five" else [0]
    jobs = [
        train.Job.of(
            method=method,
            options=options,
            data=data,
            split=i,
            epochs=epochs,
            validation=0,
        )
        for i in splits
    ]
    done = train.fit_jobs(jobs, train.Execution(compiled=compiled, progress=False))
    return sum(
        statistics.median(line["samples_per_second"] for line in one.log[WARM:-1])
        for one in done
    )


def machine(epochs: int) -> dict[str, Any]:
    """Say what was measured on."""
    import torch

    is_gpu = torch.cuda.is_available()
    return {
        "gpu": torch.cuda.get_device_name() if is_gpu else "none",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "epochs": epochs,
    }


def measure(
    root: str, epochs: int, ways: list[str], settings: list[str]
) -> dict[str, Any]:
    """Train for a few epochs in each setting; return samples per second."""
    from openset import datasets

    data = datasets.load("cifar10", root)
    found = machine(epochs)
    for way in ways:
        found[way] = {}
        for setting in settings:
            compiled = way == "compiled"
            found[way][setting] = speed(data, setting, epochs, compiled=compiled)
            print(way, setting, f"{found[way][setting]:,.0f}", flush=True)
    return found


def measure_kernels(
    root: str, epochs: int, ways: list[str], settings: list[str]
) -> dict[str, Any]:
    """Train the same with the kernels on and off, several times in turn."""
    from openset import datasets

    data = datasets.load("cifar10", root)
    found = machine(epochs)
    for way in ways:
        found[way] = {}
        for setting in settings:
            speeds: dict[str, list[float]] = {"1": [], "0": []}
            for _ in range(TURNS):
                for value, listed in speeds.items():
                    os.environ[SWITCH] = value
                    compiled = way == "compiled"
                    listed.append(speed(data, setting, epochs, compiled=compiled))
            on, off = (statistics.median(speeds[value]) for value in "10")
            found[way][setting] = {"on": speeds["1"], "off": speeds["0"]}
            pairs = [a / b for a, b in zip(speeds["1"], speeds["0"], strict=True)]
            print(
                f"{way}, {setting}: kernels on {on:,.0f} img/s, off {off:,.0f} img/s, "
                f"ratio {on / off:.3f} (pairs {min(pairs):.3f} to {max(pairs):.3f})",
                flush=True,
            )
    os.environ.pop(SWITCH, None)
    return found


def table(found: dict[str, Any]) -> str:
    """Return the section of the README."""
    flops = 6 * MACS  # two per multiply-add, three products per update
    moved = 2 * ACTIVATIONS * PASSES
    floor = max(flops / 790e12, moved / 4.8e12)
    lines = [
        f"CIFAR-10 (lossy pixels; speed does not see them), six known classes, "
        f"`classifier32`, batch 128, RandAugment (1, 6), bf16. {found['gpu']}, torch "
        f"{found['torch']}; medians over epochs {WARM} to {found['epochs'] - 2} of one "
        f"run each. Images per second, everything included "
        f"(`benchmarks/training.py`).",
        "",
        "| | one network | OpenAUC instead of CE+ | five splits at once, total |",
        "|---|---:|---:|---:|",
    ]
    for name, text in (
        ("recorded", "one CUDA graph per update"),
        ("compiled", "the same, compiled"),
    ):
        row = found[name]
        ones = (row["one"], row["one, again"])
        aucs = (row["openauc"], row["openauc, again"])
        extra = sum(ones) / sum(aucs) - 1
        lines.append(
            f"| {text} | {ones[0]:,.0f}; {ones[1]:,.0f} | {aucs[0]:,.0f}; "
            f"{aucs[1]:,.0f} ({extra:+.1%} time) | {row['five']:,.0f} |"
        )
    best = found["compiled"]["five"]
    lines += [
        "",
        f"Floor: {flops / 1e9:.2f} GFLOP per image and update at the 790 TFLOP/s this "
        f"GPU reaches in bf16 products are {flops / 790e12 * 1e6:.2f} µs; "
        f"{moved / 1e6:.1f} MB of activations ({PASSES} passes, fused) at 4.8 TB/s are "
        f"{moved / 4.8e12 * 1e6:.2f} µs. The larger of the two would be "
        f"{1 / floor:,.0f} images per second: five at once reach "
        f"{best * floor:.0%} of it.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default=None)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--ways", nargs="+", default=["recorded", "compiled"])
    parser.add_argument("--settings", nargs="+", default=None)
    parser.add_argument("--kernels", action="store_true", help="on and off")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path)
    args = parser.parse_args()
    if args.table:
        text = table(json.loads(args.table.read_text()))
        put_section("Speed of training (GPU)", text)
        print(text)
        return
    need_gpu()
    started = time.time()
    function = measure_kernels if args.kernels else measure
    usual = ["one", "five"] if args.kernels else list(SETTINGS)
    found = function(args.root, args.epochs, args.ways, args.settings or usual)
    found["seconds"] = time.time() - started
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
