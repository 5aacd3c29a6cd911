"""Speed of training: one network, five at once, and what OpenAUC costs.

    python benchmarks/training.py --root data --json training.json   # on the GPU
    python benchmarks/training.py --table training.json              # into README.md

CIFAR-10, six known classes (published splits), `classifier32`, batch 128, RandAugment
(1, 6), crop and flip on the GPU, bf16: everything a real run does, logging included,
through `openset.train.fit_jobs`. Speeds are medians over epochs, after the first three
(kernels are chosen, graphs recorded, code compiled in them).
"""

import argparse
import json
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from _measure import put_section

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


def measure(
    root: str, epochs: int, ways: list[str], settings: list[str]
) -> dict[str, Any]:
    """Train for a few epochs in each setting; return samples per second."""
    import torch

    from openset import datasets, train

    data = datasets.load("cifar10", root)
    fabric = train.make_fabric()

    def speed(methods: list[str], splits: list[int], *, compiled: bool) -> float:
        jobs = [
            train.job(
                method=method,
                data=data,
                split=split,
                epochs=epochs,
                validation=0,
                precision=fabric.asked_precision,
            )
            for split in splits
            for method in methods
        ]
        done = train.fit_jobs(jobs, fabric, compiled=compiled, progress=False)
        each = [
            statistics.median(line["samples_per_second"] for line in one.log[WARM:-1])
            for one in done
        ]
        return sum(each)

    found: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "epochs": epochs,
    }
    for way in ways:
        found[way] = {}
        for setting in settings:
            method = "openauc" if setting.startswith("openauc") else "ceplus"
            splits = [0, 1, 2, 3, 4] if setting == "five" else [0]
            found[way][setting] = speed([method], splits, compiled=way == "compiled")
            print(way, setting, f"{found[way][setting]:,.0f}", flush=True)
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
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path)
    args = parser.parse_args()
    if args.table:
        text = table(json.loads(args.table.read_text()))
        put_section("Speed of training (GPU)", text)
        print(text)
        return
    started = time.time()
    found = measure(args.root, args.epochs, args.ways, args.settings)
    found["seconds"] = time.time() - started
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
