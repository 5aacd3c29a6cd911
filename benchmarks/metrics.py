"""All ranking metrics of n scores: openset beside a bare sort and its peers.

    python benchmarks/metrics.py [--sizes 1e4 1e5 1e6 1e7]

Data: scores uniform in (0, 1), half of them known (80 % with the right class),
float64, no ties, seed 0. Each cell is a fresh process: the median of repeated calls
after one warm-up.
"""

import argparse
import json
from collections.abc import Callable

import numpy as np
from _measure import (
    in_fresh_process,
    let_torchvision_import,
    save_claim,
    seconds,
    timed,
)

from openset import Scores, evaluate

REPEATS = {10**4: 21, 10**5: 15, 10**6: 9, 10**7: 5}
OURS = "openset evaluate + OSCR curve"
SORT, ARGSORT = "bound: np.sort(scores)", "np.argsort(scores)"
POOD = "pytorch-ood OODMetrics + oscr_score"


def data(n: int) -> Scores:
    """Make the scores."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, n)
    predicted = np.where(rng.random(n) < 0.8, labels, (labels + 1) % 10)
    labels[rng.random(n) < 0.5] = -1
    return Scores(labels=labels, predicted=predicted, known=rng.random(n))


def ours(scores: Scores) -> Callable[[], object]:
    """Everything `evaluate` computes, and the curve."""

    def run() -> object:
        # A new value each time: nothing cached on the last one is reused.
        fresh = Scores(
            labels=scores.labels, predicted=scores.predicted, known=scores.known
        )
        result = evaluate(fresh)
        return result, result.oscr_curve

    return run


def scikit_learn(scores: Scores) -> Callable[[], object]:
    """AUROC, FPR95 and AUPR; no OpenAUC, no curve of correct classification."""
    from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

    is_known = ~scores.is_unknown

    def run() -> object:
        fpr, tpr, _ = roc_curve(is_known, scores.known, drop_intermediate=False)
        return (
            roc_auc_score(is_known, scores.known),
            fpr[np.argmax(tpr >= 0.95)],
            average_precision_score(is_known, scores.known),
        )

    return run


def torchmetrics(scores: Scores) -> Callable[[], object]:
    """AUROC, FPR95 and AUPR."""
    import torch

    let_torchvision_import()
    from torchmetrics.functional.classification import (
        binary_auroc,
        binary_average_precision,
        binary_roc,
    )

    known = torch.from_numpy(scores.known.copy())
    target = torch.from_numpy((~scores.is_unknown).astype(np.int64))

    def run() -> object:
        fpr, tpr, _ = binary_roc(known, target)
        return (
            binary_auroc(known, target),
            fpr[torch.argmax((tpr >= 0.95).int())],
            binary_average_precision(known, target),
        )

    return run


def pytorch_ood(scores: Scores) -> Callable[[], object]:
    """AUROC, AUPR both ways, FPR95, and the area under OSCR."""
    import torch

    let_torchvision_import()
    from pytorch_ood.metrics import OODMetrics, oscr_score

    outlier = torch.from_numpy(-scores.known)
    labels = torch.from_numpy(scores.labels.copy())
    predicted = torch.from_numpy(scores.predicted.copy())

    def run() -> object:
        metrics = OODMetrics()
        metrics.update(outlier, labels)
        return metrics.compute(), oscr_score(outlier, predicted, labels)

    return run


CASES: dict[str, Callable[[Scores], Callable[[], object]]] = {
    SORT: lambda scores: lambda: np.sort(scores.known),
    ARGSORT: lambda scores: lambda: np.argsort(scores.known),
    OURS: ours,
    POOD: pytorch_ood,
    "scikit-learn AUROC + FPR95 + AP": scikit_learn,
    "torchmetrics AUROC + FPR95 + AP": torchmetrics,
}


def main() -> None:
    """Measure every case, or one of them (in a child process)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=float, default=[1e4, 1e5, 1e6, 1e7])
    parser.add_argument("--one", nargs=2, metavar=("CASE", "N"))
    arguments = parser.parse_args()
    if arguments.one:
        name, n = arguments.one[0], int(arguments.one[1])
        print(json.dumps(timed(CASES[name](data(n)), REPEATS.get(n, 5))))
        return
    sizes = [int(size) for size in arguments.sizes]
    cells: dict[str, dict[int, dict[str, float]]] = {name: {} for name in CASES}
    for n in sizes:
        for name in CASES:
            cells[name][n] = in_fresh_process(__file__, name, str(n))
            print(f"{n:>9} {name:40} {seconds(cells[name][n]['median'])}", flush=True)
    sort, largest = cells[SORT], max(sizes)
    if largest < max(REPEATS):  # trials are not written down
        return
    save_claim(
        "metrics",
        "Every metric of `evaluate` with intervals, and the OSCR curve, beside a bare "
        "sort and what other packages compute.",
        [
            {"case": name}
            | {f"n = {n:.0e}": seconds(row[n]["median"]) for n in sizes}
            | {
                "× np.sort": round(row[largest]["median"] / sort[largest]["median"], 1),
                "fastest": seconds(row[largest]["least"]),
                "slowest": seconds(row[largest]["largest"]),
                "memory, × scores": round(row[largest]["extra"] / 8 / largest, 1),
            }
            for name, row in cells.items()
        ],
        data="uniform scores, half known, 80 % of these classified correctly, float64",
        n=f"{sizes}; median of {[REPEATS.get(n, 5) for n in sizes]} calls",
        seeds=[0],
    )


if __name__ == "__main__":
    main()
