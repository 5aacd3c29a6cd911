"""What each of two processes does in ``test_distributed.py``, started by torchrun."""

import sys
from pathlib import Path

import torch

from openset.train import run
from tests.train.tiny import (
    NARROW,
    fit_tiny,
    image_data,
    image_network,
    rows_data,
    rows_network,
)


def cases():
    """Return runs by name: smooth networks, no draws that differ between processes."""
    torch.manual_seed(0)
    usual = {"network": rows_network(3), "momentum": 0.9, "epochs": 4, "validation": 0}
    # 45 to 48 training samples: batches of 16 leave 13 or 14 over (7 + 6, 7 + 7), those
    # of 13, themselves shared out as 7 + 6, leave 9 (5 + 4). Tests have 60 to 64.
    return {
        "even": usual | {"data": rows_data(60), "batch": 16},
        "uneven": usual | {"data": rows_data(64), "batch": 13},
        "odd": usual | {"data": rows_data(63), "batch": 13, "method": "gcpl"},
        "negatives": usual | {"data": rows_data(60), "batch": 16, "method": "entropic"},
        "curves": usual | {"data": rows_data(61), "batch": 16, "curves": True},
    }


def confusing():
    """Return a run whose updates each leave some parameters without a gradient."""
    torch.manual_seed(0)
    return {
        "data": image_data(n=12, side=32),
        "method": "arpl_cs",
        "options": NARROW,
        "network": image_network(3),
        "epochs": 1,
        "batch": 6,
        "validation": 0,
    }


def stop_and_go_on(folder, case):
    """Stop both processes after two epochs; both go on from the one checkpoint."""
    epoch = run.Run._epoch

    def patched(self, number):
        return epoch(self, number) if number < 2 else 1 / 0

    case = case | {"devices": 2, "out": folder}
    run._EVERY = 0.0
    run.Run._epoch = patched
    try:
        fit_tiny(**case)
    except ZeroDivisionError:
        run.Run._epoch = epoch
    # The chief may still be writing; a launcher would start both anew.
    torch.distributed.barrier()
    fit_tiny(**case)


def main(folder):
    """Train every case, here with half of the samples."""
    for name, case in cases().items():
        fit_tiny(devices=2, out=folder / name, **case)
        again = fit_tiny(devices=2, out=folder / name, **case)  # read, not trained
        assert again.learner is None
    stop_and_go_on(folder / "resumed", cases()["even"])
    fit_tiny(devices=2, out=folder / "confusing", **confusing())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
