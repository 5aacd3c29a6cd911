"""A billion scores in constant memory.

    python benchmarks/sketch.py [--n 1000000000]

Two processes make shards of 2**20 scores (normal, float32, half of them unknown)
and count them in a `metrics.Sketch`; the time to make them is measured apart. Every
process also sorts some of its shards with `np.sort`, so that the ratio does not depend
on what else the machine does.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from _measure import save_claim, seconds

from openset import Scores
from openset.metrics import Sketch

SHARD = 1 << 20
WORKERS = 2
SORTED_SHARDS = 5


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


def speed(n: int, folder: Path) -> dict[str, str]:
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
    return {
        "processes": str(WORKERS),
        "counting, wall time of the slower process": seconds(slowest),
        "counting, its processor time": seconds(cpu),
        "making the shards, wall time": seconds(made),
        "everything": seconds(wall),
        "processor time per score": f"{ns:.0f} ns",
        "np.sort of a shard as float64, per score": f"{sort_ns:.0f} ns",
        "sorting over counting": f"{sort_ns / ns:.1f}×",
        "peak memory of a process": f"{peak:.0f} MB",
        "of that, above the start and the shard in work": f"{own:.0f} MB",
        "all brackets from the merged counts": seconds(for_brackets),
        "AUROC": f"{brackets['auroc'].low:.7f} – {brackets['auroc'].high:.7f}",
        "widest bracket": f"{widest:.1e}",
    }


def main() -> None:
    """Measure, and write the claim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10**9)
    parser.add_argument("--folder", type=Path, default=Path("runs/sketch"))
    parser.add_argument("--work", nargs=3)
    args = parser.parse_args()
    if args.work:
        work(int(args.work[0]), int(args.work[1]), Path(args.work[2]))
        return
    args.folder.mkdir(parents=True, exist_ok=True)
    for old in args.folder.glob("*.npz"):
        old.unlink()
    found = speed(args.n, args.folder)
    print(json.dumps(found, indent=1))
    if args.n >= 10**9:  # trials are not written down
        save_claim(
            "sketch",
            "Scores are counted in constant memory; every metric comes as a bracket.",
            [{"what": what, "value": value} for what, value in found.items()],
            data="two normal distributions as of a detector with AUROC 0.86, float32",
            n=args.n,
            seeds=[0],
        )


if __name__ == "__main__":
    main()
