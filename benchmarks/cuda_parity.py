"""Compare every detector on torch CUDA with NumPy: the scores must agree.

    PYTHONPATH=src python benchmarks/cuda_parity.py

Continuous integration has no GPU; this is run by hand before a release. Prints the
largest difference relative to the spread of the scores, fitted and scored on the
device, and exits with 1 if any detector is off.
"""

import sys

import numpy as np
import torch
from _measure import need_device

from openset import Outputs, detectors

LIMITS = {"float64": 1e-8, "float32": 2e-3}
# SVM solvers stop at their own tolerance, and float32 data shift where.
LOOSE = {"wsvm": 2e-2, "pisvm": 2e-2}


def split(n: int, seed: int, dtype: str, *, unknown: float = 0.0) -> dict[str, object]:
    """Make logits and features of a network that knows four classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n)
    centres = np.random.default_rng(0).normal(0, 2, (5, 16))
    labels[rng.random(n) < unknown] = -1
    features = np.maximum(centres[labels] + rng.normal(size=(n, 16)), 0.01)
    weight = np.maximum(centres[:4], 0) - 0.3
    return {
        "logits": (features @ weight.T).astype(dtype),
        "features": features.astype(dtype),
        "labels": labels,
        "weight": weight.astype(dtype),
        "bias": np.zeros(4, dtype),
    }


def on_device(arrays: dict[str, object], device: str) -> Outputs:
    """Move the floating point arrays."""
    moved = {
        name: torch.from_numpy(array).to(device) if name != "labels" else array
        for name, array in arrays.items()
    }
    return Outputs(**moved)


def main() -> None:
    """Compare all of them."""
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    need_device(device, trial="cuda_parity.py cpu")
    name = torch.cuda.get_device_name() if device == "cuda" else device
    print(f"torch {torch.__version__} on {name}, numpy {np.__version__}")
    failed = False
    for detector in detectors.names():
        cells = []
        for dtype, limit in LIMITS.items():
            train, test = split(400, 1, dtype), split(200, 2, dtype, unknown=0.4)
            params = {"k": 5} if detector == "knn" else {}
            expected = (
                detectors.make(detector, **params)
                .fit(Outputs(**train))
                .score(Outputs(**test))
                .known
            )
            got = (
                detectors.make(detector, **params)
                .fit(on_device(train, device))
                .score(on_device(test, device))
                .known
            )
            finite = np.isfinite(expected)
            same = np.array_equal(finite, np.isfinite(got))
            error = np.abs(got[finite] - expected[finite]).max() if same else np.inf
            error /= max(np.ptp(expected[finite]), 1e-300)
            ok = error <= max(limit, LOOSE.get(detector, 0.0))
            failed |= not ok
            cells.append(f"{dtype} {error:.1e}{'' if ok else '  OFF'}")
        print(f"{detector:12} {'   '.join(cells)}", flush=True)
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
