"""Which detectors gain from which training: OpenAUC of every detector on one network.

    python benchmarks/recipes.py --data cifar10 --root data --budgets 60 --seeds 0 \
        --variants ceplus openset openset+logistic --out runs/again --outputs outputs
    python benchmarks/training_detectors.py make outputs
    python benchmarks/training_detectors.py show

The first line trains on a GPU and keeps the outputs of the training and the test part.
`make` fits every detector, at its default parameters, to the training part and scores
the test part; a line for each network and detector goes to
results/training_detectors.jsonl. `show` writes the tables of docs/results/training.md
(the best twelve after CE+) and benchmarks/README.md (all). Nothing is chosen by these
numbers.
"""

import argparse
import json
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from openset import Outputs, detectors, metrics

sys.path.insert(0, str(Path(__file__).parent))
from _measure import put_section
from _training_runs import difference, mean

STORE = Path(__file__).with_name("results") / "training_detectors.jsonl"
DOCS = Path(__file__).parents[1] / "docs" / "results" / "training.md"
LEFT_OUT = ("evm", "wsvm", "pisvm")  # they need minutes
BASE = "ceplus"
N_IN_DOCS = 12

Row = dict[str, Any]


def measure(folder: Path) -> list[Row]:
    """Score one network with every detector."""
    data, variant, split, seed, budget = _told(folder)
    train, test = (Outputs.load(folder / f"{part}.npz") for part in ("train", "test"))
    rows = []
    for name in detectors.names():
        if name in LEFT_OUT:
            continue
        try:
            scores = detectors.make(name).fit(train).score(test)
        except ValueError as error:
            print(f"{folder.name}: without {name} ({error})", flush=True)
            continue
        rows.append(
            {
                "data": data,
                "variant": variant,
                "split": int(split),
                "seed": int(seed),
                "budget": float(budget),
                "detector": name,
                "accuracy": round(metrics.accuracy(scores), 5),
                "openauc": round(metrics.openauc(scores), 5),
                "auroc": round(metrics.auroc(scores), 5),
            }
        )
    print(f"{folder.name}: {len(rows)} detectors", flush=True)
    return rows


def make(folder: Path, out: Path, jobs: int) -> None:
    """Measure all networks of a folder that are not in the file."""
    done = {_network(row) for row in read(out)}
    folders = [one.parent for one in sorted(folder.glob("*/test.npz"))]
    waiting = [one for one in folders if _told(one) not in done]
    out.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(jobs) as pool, out.open("a", encoding="utf-8") as stream:
        for rows in pool.map(measure, waiting):
            stream.writelines(json.dumps(row) + "\n" for row in rows)
            stream.flush()


def _told(folder: Path) -> tuple[str, ...]:
    """Read data, variant, split, seed and budget from the name; variants have a _."""
    data, _, rest = folder.name.partition("_")
    return (data, *rest.rsplit("_", 3))


def _network(row: Row) -> tuple[str, ...]:
    keys = ("data", "variant", "split", "seed", "budget")
    return tuple(str(row[key]) for key in keys)


def read(path: Path = STORE) -> list[Row]:
    """Return what was measured."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def table(rows: list[Row], n_rows: int | None = None) -> str:
    """Return OpenAUC by detector and training, best first by the training `BASE`."""
    by_cell: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for one in rows:
        by_cell[one["detector"], one["variant"]].append(one)
    others = sorted({one["variant"] for one in rows} - {BASE})
    names = sorted(
        {one["detector"] for one in rows},
        key=lambda name: -sum(one["openauc"] for one in by_cell[name, BASE]),
    )
    heads = [f"`{BASE}`"]
    for other in others:
        heads += [f"`{other}`", "difference"]
    lines = [f"| detector | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for name in names[:n_rows]:
        base = by_cell[name, BASE]
        cells = [mean(one["openauc"] for one in base)]
        for other in others:
            own = by_cell[name, other]
            cells.append(mean(one["openauc"] for one in own))
            cells.append(difference(own, base, "openauc"))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    first = rows[0]
    splits = sorted({one["split"] for one in rows})
    seeds = sorted({one["seed"] for one in rows})
    lines += [
        "",
        f"OpenAUC in percent, mean ± standard deviation over splits {splits}, seed "
        f"{seeds}; difference to `{BASE}` paired by split, with a 95 % t interval. "
        f"{first['data']}, lossy pixels (WebP), a budget of {first['budget']:g} epochs "
        f"of CE+; detectors at their default parameters "
        f"(`benchmarks/training_detectors.py`).",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("make", "show"))
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=STORE)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    if args.action == "make":
        if args.folder is None:
            parser.error("make needs the folder of outputs")
        make(args.folder, args.out, args.jobs)
        return
    rows = read(args.out)
    put_section("Which detectors gain from which training? (GPU)", table(rows))
    put_section("detectors by training", table(rows, N_IN_DOCS), DOCS)
    print(table(rows))


if __name__ == "__main__":
    main()
