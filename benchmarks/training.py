"""Speed of training on a GPU: one network, OpenAUC's loss, five networks at once.

    python benchmarks/training.py --root data            # a few minutes on a GPU
    python benchmarks/training.py --root data --kernels  # Triton norm on and off

CIFAR-10, six known classes, `classifier32`, batch 128, RandAugment, crop and flip on
the GPU, bf16: everything a real run does, logging included, through `train.fit_jobs`.
Speeds are medians over epochs, after the first three (graphs are recorded in them).
"""

import argparse
import os
import statistics
from typing import Any

from _measure import need_gpu, save_claim

from openset import datasets, train

WARM = 3
SETTINGS = {"one": ("ceplus", 1), "openauc": ("openauc", 1), "five": ("ceplus", 5)}
SWITCH = "OPENSET_NORM_KERNELS"


def speed(data: Any, setting: str, epochs: int, *, compiled: bool) -> float:
    """Train for a few epochs; return images per second of all runs together."""
    method, n_runs = SETTINGS[setting]
    options = {"preset": "released"} if method == "openauc" else {}
    jobs = [
        train.Job.of(
            method=method,
            options=options,
            data=data,
            split=split,
            epochs=epochs,
            validation=0,
        )
        for split in range(n_runs)
    ]
    done = train.fit_jobs(jobs, train.Execution(compiled=compiled, progress=False))
    return sum(
        statistics.median(line["samples_per_second"] for line in one.log[WARM:-1])
        for one in done
    )


def main() -> None:
    """Measure each setting in turns; write the claim."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", help="folder of the data sets")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--kernels", action="store_true", help="on and off")
    args = parser.parse_args()
    need_gpu()
    data = datasets.load("cifar10", args.root)
    rows: list[dict[str, Any]] = []
    for turn in range(args.turns):
        for compiled in (False, True):
            for setting in SETTINGS:
                for kernels in "10" if args.kernels else "1":
                    os.environ[SWITCH] = kernels
                    row = {"setting": setting, "compiled": compiled, "turn": turn}
                    row |= {"kernels": kernels == "1"}
                    found = speed(data, setting, args.epochs, compiled=compiled)
                    rows.append(row | {"images_per_second": round(found)})
                    print(rows[-1], flush=True)
    save_claim(
        "training_kernels" if args.kernels else "training",
        "Images per second of training, everything included; five: the sum of five "
        "networks at once.",
        rows,
        machine=f"{torch.cuda.get_device_name()}, torch {torch.__version__}",
        data=f"cifar10, {args.epochs} epochs",
        n=args.turns,
        seeds=[0],
    )


if __name__ == "__main__":
    main()
