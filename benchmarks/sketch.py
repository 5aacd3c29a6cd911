"""A billion scores in constant memory, and how wide brackets of real scores are.

    PYTHONPATH=src python benchmarks/sketch.py [--n 1000000000] [--only speed|widths]

Speed: two processes make shards of 2**20 scores (normal, float32, half of them unknown)
and count them in a `metrics.Sketch`; the time to make them is measured apart. Every
process also sorts some of its shards with `np.sort`, so that the ratio does not depend
on what else the machine does. Widths: brackets of every detector on real images
(handwritten digits of scikit-learn, a small network trained here), beside the exact
values. Writes its section of benchmarks/README.md.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from _measure import machine, put_section, seconds

from openset import Outputs, Scores, metrics
from openset.detectors import make, names
from openset.metrics import Sketch

SHARD = 1 << 20
WORKERS = 2
SORTED_SHARDS = 5
WIDTHS = ("auroc", "openauc", "fpr_at_tpr", "ccr_at_fpr_0.1", "osa_best")


def shard(seed: int) -> dict[str, np.ndarray]:
    """Make scores as of a detector with an AUROC of 0.86."""
    rng = np.random.default_rng(seed)
    known = rng.standard_normal(SHARD, dtype=np.float32)
    labels = np.zeros(SHARD, np.int8)
    labels[::2] = -1
    known[1::2] += 1.5
    known *= 3
    known += 20  # as energies of a network with large logits
    predicted = (rng.random(SHARD, dtype=np.float32) < 0.2).astype(np.int8)
    return {"labels": labels, "predicted": predicted, "known": known}


def work(first: int, n_shards: int, folder: Path) -> None:
    """Count some shards; print times and memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sketch = Sketch()
    made = counted = used = 0.0
    sorting = []
    for seed in range(first, first + n_shards):
        start = time.perf_counter()
        samples = shard(seed)
        made += time.perf_counter() - start
        start, cpu = time.perf_counter(), time.process_time()
        sketch.update(Scores(**samples))
        counted += time.perf_counter() - start
        used += time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(min(SORTED_SHARDS, n_shards)):  # a copy of its own: after the peak
        start = time.process_time()
        np.sort(samples["known"].astype(np.float64))
        sorting.append(time.process_time() - start)
    sketch.save(folder / f"{first}.npz")
    n = n_shards * SHARD
    print(
        json.dumps(
            {
                "made": made,
                "counted": counted,
                "cpu": used,
                "ns": used / n * 1e9,
                "sort_ns": min(sorting) / SHARD * 1e9,
                "before_mb": before / 1024,
                "peak_mb": peak / 1024,
                "shard_mb": sum(a.nbytes for a in samples.values()) / 2**20,
            }
        )
    )


def speed(n: int, folder: Path) -> str:
    """Count n scores in two processes."""
    n_shards = -(-n // (SHARD * WORKERS))
    start = time.perf_counter()
    workers = [
        subprocess.Popen(  # noqa: S603
            [sys.executable, __file__, "--work", str(i * n_shards), str(n_shards),
             str(folder)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(WORKERS)
    ]  # fmt: skip
    found = [json.loads(worker.communicate()[0]) for worker in workers]
    wall = time.perf_counter() - start
    total = Sketch()
    for path in folder.glob("*.npz"):
        total.merge(Sketch.load(path))
    start = time.perf_counter()
    brackets = total.brackets()
    for_brackets = time.perf_counter() - start
    widest = max(one.width for one in brackets.values())
    slowest, made = (max(one[k] for one in found) for k in ("counted", "made"))
    cpu = max(one["cpu"] for one in found)
    ns, sort_ns = (min(one[k] for one in found) for k in ("ns", "sort_ns"))
    peak = max(one["peak_mb"] for one in found)
    own = max(o["peak_mb"] - o["before_mb"] - 2 * o["shard_mb"] for o in found)
    return "\n".join(
        [
            f"### {len(total):.3g} scores, {WORKERS} processes",
            "",
            "| | |",
            "|---|---|",
            f"| counting, wall time of the slower process | {seconds(slowest)} |",
            f"| counting, its processor time | {seconds(cpu)} |",
            f"| making the shards, wall time | {seconds(made)} |",
            f"| everything | {seconds(wall)} |",
            f"| processor time per score | {ns:.0f} ns |",
            f"| `np.sort` of a shard as float64, per score | {sort_ns:.0f} ns |",
            f"| sorting over counting | {sort_ns / ns:.1f}× |",
            f"| peak memory of a process | {peak:.0f} MB |",
            f"| of that, above the start and the shard in work | {own:.0f} MB |",
            f"| all brackets from the merged counts | {seconds(for_brackets)} |",
            f"| AUROC | {brackets['auroc'].low:.7f} – {brackets['auroc'].high:.7f} |",
            f"| widest bracket | {widest:.1e} |",
            "",
            "Sorting would also need all scores in memory at once.",
        ]
    )


def digits() -> tuple[Outputs, Outputs]:
    """Train a small network on digits 0 to 5 and return its outputs."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    rng = np.random.default_rng(0)
    order = rng.permutation(labels.size)
    images, labels = images[order], labels[order]
    is_known = labels < 6
    train = np.flatnonzero(is_known)[:600]
    test = np.setdiff1d(np.arange(labels.size), train)
    network = MLPClassifier((64,), max_iter=60, random_state=0, alpha=1e-3)
    with warnings.catch_warnings():  # sixty epochs are enough here
        warnings.simplefilter("ignore")
        network.fit(images[train], labels[train])
    (w1, w2), (b1, b2) = network.coefs_, network.intercepts_

    def outputs(rows: np.ndarray) -> Outputs:
        # Augmented by noise, so that there are enough samples to tell widths apart.
        seen = np.repeat(images[rows], 20, axis=0)
        seen = seen + rng.normal(0, 0.1, seen.shape)
        features = np.maximum(seen @ w1 + b1, 0).astype(np.float32)
        logits = (features @ w2 + b2).astype(np.float32)
        given = np.where(labels[rows] < 6, labels[rows], -1)
        return Outputs(
            logits=logits, features=features, labels=np.repeat(given, 20),
            weight=w2.T.astype(np.float32), bias=b2.astype(np.float32),
        )  # fmt: skip

    return outputs(train), outputs(test)


def widths() -> str:
    """Compare brackets with exact values for every detector."""
    train, test = digits()
    lines = [
        f"### Widths on {len(test)} scores of a small network on digits",
        "",
        "Handwritten digits (scikit-learn), 0 to 5 known, each image with twenty draws "
        "of noise. The exact value lies in every bracket.",
        "",
        f"| detector | {' | '.join(WIDTHS)} |",
        f"|---|{'---|' * len(WIDTHS)}",
    ]
    for name in names():
        try:
            scores: Scores = make(name).fit(train).score(test)
        except (ValueError, TypeError, ImportError) as error:
            print(f"{name} left out: {error}")
            continue
        sketch = Sketch()
        sketch.update(scores)
        cells = []
        for key in WIDTHS:
            bracket = sketch.bracket(key)
            exact = metrics.get(key).value(scores)
            assert exact in bracket, (name, key, exact, bracket)
            cells.append(f"{bracket.width:.0e}" if bracket.width > 1e-11 else "0")
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10**9)
    parser.add_argument("--only", choices=["speed", "widths"])
    parser.add_argument("--folder", type=Path, default=Path("runs/sketch"))
    parser.add_argument("--work", nargs=3)
    args = parser.parse_args()
    if args.work:
        work(int(args.work[0]), int(args.work[1]), Path(args.work[2]))
        return
    place = f"`python benchmarks/sketch.py` on {machine()}; numpy {np.__version__}."
    if args.only != "widths":
        args.folder.mkdir(parents=True, exist_ok=True)
        for old in args.folder.glob("*.npz"):
            old.unlink()
        text = f"## Metrics without keeping scores\n\n{place}\n\n"
        text += speed(args.n, args.folder)
        print(text, flush=True)
        if args.n >= 10**9:  # trials are not written down
            put_section("sketch", text)
    if args.only != "speed":
        put_section("sketch widths", widths())


if __name__ == "__main__":
    main()
