"""Train the networks whose thresholds `operating.py` tries: CE+, recipe `ceplus`.

    python benchmarks/train_networks.py --root data --out networks    # on the GPU
    python benchmarks/operating.py --networks networks

Of each image set the first six classes are known; a tenth of their training samples is
set aside to calibrate with. All sets are read as packaged (pixels lossy): were one of
them lossless, its files alone would tell known from unknown.
"""

import argparse
import json
import time
from pathlib import Path

from openset import datasets, metrics, protocols, train

# The recipe's 600 epochs for CIFAR-10; about as many samples, or fewer, for the others.
EPOCHS = {"mnist": 180, "cifar10": 600, "svhn": 360}
SEEDS = (0, 1, 2)
N_KNOWN = 6


def protocol(data: datasets.Dataset) -> protocols.Protocol:
    """Make the first six classes known."""
    classes = tuple(data.classes)
    return protocols.Protocol(
        known=classes[:N_KNOWN],
        unknown=classes[N_KNOWN:],
        source=data.name,
        validation=0.1,
    )


def main() -> None:
    """Train all networks at once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default=None)
    parser.add_argument("--out", type=Path, default=Path("networks"))
    parser.add_argument("--names", nargs="+", default=list(EPOCHS))
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--precision", default=None)
    parser.add_argument("--shorten", type=float, default=1.0, help="times the epochs")
    args = parser.parse_args()
    execution = train.Execution(precision=args.precision)
    started = time.time()
    jobs = {}
    for name in args.names:
        data = datasets.load(name, args.root)
        for seed in args.seeds:
            title = f"{name}-{seed}"
            jobs[title] = train.Job.of(
                method="ceplus",
                data=data,
                protocol=protocol(data),
                epochs=max(1, round(EPOCHS[name] * args.shorten)),
                seed=seed,
                out=args.out / title,
                title=title,
            )
    done = train.fit_jobs(jobs.values(), execution)
    for title, one in zip(jobs, done, strict=True):
        scores = one.scores["published"]
        found = {
            "accuracy": metrics.accuracy(scores),
            "openauc": metrics.openauc(scores),
        }
        print(title, json.dumps(found), flush=True)
    print(f"{time.time() - started:.0f} s")


if __name__ == "__main__":
    main()
