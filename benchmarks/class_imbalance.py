"""Run a study of `openset reproduce` in pieces of a few minutes each.

    python benchmarks/class_imbalance.py --root data --out runs/imbalance \
        --cells cells.tar.gz --seconds 420 --jobs 8

One protocol of the study after the other; after each, all finished cells are packed
into `--cells`. No new protocol is begun when less time is left than the last one took.
The next call unpacks the cells and goes on, on another machine as well. When all are
there, the tables, the figure and results.json are written to `--out`.

`--name class-imbalance-small` is a small case that runs anywhere.
"""

import argparse
import tarfile
import time
from pathlib import Path

from openset import bench, reproduce, runs
from openset.reproduce._study import study_text


def unpack(cells: Path, study: Path) -> None:
    """Bring back the cells of earlier calls."""
    if cells.exists():
        with tarfile.open(cells) as archive:
            archive.extractall(study, filter="data")


def pack(cells: Path, study: Path) -> None:
    """Keep the finished cells; scores and networks are too large."""
    cells.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(cells, "w:gz") as archive:
        archive.add(study / "cells", "cells")


def main() -> None:
    """Run what is left, as far as the time allows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="class-imbalance-table1")
    parser.add_argument("--root", type=Path, default=None)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cells", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--backend", default="loky")
    args = parser.parse_args()
    begun, took = time.monotonic(), 0.0
    study = bench.parse(study_text(args.name), f"{args.name}.yaml", base=args.out)
    folder = args.out / "study"
    unpack(args.cells, folder)
    where = {"backend": args.backend, "jobs": args.jobs, "root": args.root}
    for n in range(1, len(study.protocols) + 1):
        part = study.model_copy(update={"protocols": study.protocols[:n]})
        part = part.at(args.out.resolve())
        if bench.plan(part).ids <= runs.finished(folder):
            continue
        if time.monotonic() - begun + took > args.seconds:
            print("time is up: run again to go on")
            return
        started = time.monotonic()
        done = bench.run(part, folder, **where)
        took = time.monotonic() - started
        pack(args.cells, folder)
        print(f"{part.protocols[-1].title}: {done}", flush=True)
        if done.failed:
            print(done.failed[0]["error"])
            return
    settings = reproduce.Settings(out=args.out, **where)
    for table in reproduce.run(args.name, settings).tables:
        print(table.title, table.markdown(), sep="\n")


if __name__ == "__main__":
    main()
