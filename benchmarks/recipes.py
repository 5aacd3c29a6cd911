"""Training methods and recipes on CIFAR-10, SVHN and MNIST; what is there is kept.

    python benchmarks/recipes.py --data cifar10 --root data --variants openset ceplus \
        --budget 100 --seeds 0 1 2 --seconds 540
    python benchmarks/recipes.py --claims      # runs.jsonl -> the two claims

A budget counts image passes: epochs of `ceplus`, 1.5 for every epoch with a rotation
head. Runs train on all known training images of a published split and are tested on its
full test part after the last epoch; nothing is tuned, λ = 0.1. `--inner` trains on
problems made of the training part alone, two of six known classes playing the unknown:
what is chosen is chosen there. Splits 0 and 1 have the same known classes: 1 is left
out.

Every finished run is a line of results/training/runs.jsonl and is not trained again;
`--seconds` stops, and the same command goes on from the checkpoints in runs/keep.
Several runs share the GPU. `--tiny` tries a command on a CPU, in runs/tiny.
"""

import argparse
import json
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from _measure import need_gpu, save_claim
from scipy import stats

from openset import datasets, metrics, protocols, train
from openset.train.tune import inner_problems

RESULTS = Path(__file__).parent / "results" / "training"
TINY, TINY_IMAGES, TINY_BUDGET = Path("runs/tiny"), 10, 2.0  # images of a class


@dataclass(frozen=True)
class Variant:
    """A method with its options, under a recipe."""

    method: str = "ceplus"
    recipe: str = "ceplus"
    options: Mapping[str, Any] = field(default_factory=dict)


PLACES = ("input", "conv3", "conv6", "penultimate")  # of the mixtures
VARIANTS = (
    {
        "ceplus": Variant(),
        "openset": Variant(recipe="openset"),
        "acc_auc": Variant("acc_auc", options={"preset": "released"}),
        "openauc-released": Variant("openauc", options={"preset": "released"}),
    }
    | {
        f"openauc-paper-{place}": Variant("openauc", options={"place": place})
        for place in PLACES
    }
    | {
        f"openset+paper-{place}": Variant("openauc", "openset", {"place": place})
        for place in PLACES
    }
    | {
        name: Variant(name, recipe="arpl")
        for name in ("softmax", "gcpl", "rpl", "arpl", "arpl_cs")
    }
)
# Rows of Table 2 of the OpenAUC paper.
TABLE_2 = {
    "softmax": "Softmax", "gcpl": "GCPL", "rpl": "RPL", "arpl": "ARPL",
    "arpl_cs": "ARPL+CS", "ceplus": "CE+", "acc_auc": "Acc+AUC",
    "openauc-released": "Ours", "openauc-paper-conv3": "Ours",
}  # fmt: skip
COLUMNS = {"cifar10": "CIFAR10", "svhn": "SVHN", "mnist": "MNIST"}

Run = dict[str, Any]


def key(run: Mapping[str, Any]) -> tuple[str, ...]:
    """Name a run."""
    return tuple(str(run[k]) for k in ("data", "variant", "split", "seed", "budget"))


def read(folder: Path = RESULTS) -> list[Run]:
    """Return the finished runs."""
    file = folder / "runs.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [json.loads(line) for line in lines]


def few(data: datasets.Dataset) -> datasets.Dataset:
    """Return some images of each class in each part."""
    parts = {}
    for name, rows in data.parts.items():
        labels = data.labels[rows]
        first = [rows[labels == one][:TINY_IMAGES] for one in np.unique(labels)]
        parts[name] = np.sort(np.concatenate(first))
    return replace(data, parts=parts)


def problem(data: datasets.Dataset, run: Run) -> dict[str, Any]:
    """Return the data of a job: a published split, or a problem inside its training."""
    split = run["split"]
    if isinstance(split, int):
        return {"data": data, "split": split}
    outer = protocols.published(run["data"], int(split.removeprefix("inner-")))
    cut = datasets.cut(data, outer)
    return {"data": inner_problems(cut, draws=1, seed=run["seed"])[0]}


def job(data: datasets.Dataset, run: Run, keep: Path, *, narrow: bool) -> train.Job:
    """Return what is trained for a run."""
    variant = VARIANTS[run["variant"]]
    recipe = train.recipe(
        variant.recipe, run["data"], method=variant.method, budget=run["budget"]
    )
    run["epochs"] = recipe.epochs
    small = {"width": 32} if narrow and variant.method == "arpl_cs" else {}
    return train.Job(
        method=variant.method,
        options={**variant.options, **small},
        recipe=recipe,
        seed=run["seed"],
        validation=0,
        out=keep / "-".join(key(run)),
        **problem(data, run),
    )


def measured(trained: train.Trained) -> Run:
    """Return the numbers of a finished run."""
    import torch

    found: Run = {"accuracy": metrics.accuracy(trained.scores["maxlogit"])}
    for score in ("maxlogit", "msp", "published"):
        found[f"openauc_{score}"] = metrics.openauc(trained.scores[score])
    found["train_seconds"] = sum(epoch["seconds"] for epoch in trained.log)
    is_gpu = torch.cuda.is_available()
    found["gpu"] = torch.cuda.get_device_name() if is_gpu else "none"
    return found | {"torch": torch.__version__}


def train_missing(args: argparse.Namespace) -> None:
    """Train what is not there yet, several runs at a time, until the time is up."""
    folder = TINY if args.tiny else RESULTS
    done = {key(run) for run in read(folder)}
    runs = [
        {"data": args.data, "variant": variant, "split": split, "seed": seed}
        | {"budget": TINY_BUDGET if args.tiny else args.budget}
        for seed in args.seeds
        for variant in args.variants
        for split in (f"inner-{s}" if args.inner else s for s in args.splits)
    ]
    waiting = [run for run in runs if key(run) not in done]
    print(f"{len(waiting)} runs to go, {len(runs) - len(waiting)} done", flush=True)
    data = datasets.load(args.data, args.root)
    data = few(data) if args.tiny else data
    execution = train.Execution(compiled=args.compile, progress=False)
    folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(args.seconds)
    while waiting:
        group, waiting = waiting[: args.at_once], waiting[args.at_once :]
        started = time.time()
        jobs = [job(data, run, args.keep, narrow=args.tiny) for run in group]
        found = train.fit_jobs(jobs, execution)
        beside = {"group_size": len(group), "group_seconds": time.time() - started}
        with (folder / "runs.jsonl").open("a", encoding="utf-8") as stream:
            for run, trained in zip(group, found, strict=True):
                line = run | measured(trained) | beside
                print(json.dumps(line), file=stream)
                print(json.dumps(line), flush=True)


def kind(run: Run) -> dict[str, Any]:
    """Say what only runs that are compared have in common."""
    inner = str(run["split"]).startswith("inner")
    return {"data": run["data"], "budget": run["budget"], "inner": inner}


def groups(runs: list[Run]) -> Iterator[tuple[dict[str, Any], dict[str, list[Run]]]]:
    """Give the kinds of runs, each with the runs of its variants."""
    kinds = {tuple(kind(r).values()): kind(r) for r in runs}
    for _, one in sorted(kinds.items()):
        mine = [r for r in runs if kind(r) == one]
        names = dict.fromkeys(r["variant"] for r in mine)
        yield one, {v: [r for r in mine if r["variant"] == v] for v in names}


def mean(runs: list[Run], name: str) -> list[float]:
    """Return mean and standard deviation over runs, in percent."""
    if len(runs) < 2 or any(name not in r for r in runs):
        return []
    values = [100 * r[name] for r in runs]
    return [round(float(np.mean(values)), 2), round(float(np.std(values, ddof=1)), 2)]


def difference(runs: list[Run], base: list[Run], name: str) -> list[float]:
    """Return the mean difference and half its 95 % t interval.

    Paired by split and seed; seeds of one split are averaged first, as they are not
    independent.
    """
    values = {(r["split"], r["seed"]): r[name] for r in base}
    by_split: dict[str, list[float]] = {}
    for r in runs:
        if (r["split"], r["seed"]) in values:
            gain = 100 * (r[name] - values[r["split"], r["seed"]])
            by_split.setdefault(str(r["split"]), []).append(gain)
    gains = [float(np.mean(one)) for one in by_split.values()]
    if len(gains) < 2:
        return []
    half = stats.t.ppf(0.975, len(gains) - 1) * stats.sem(gains)
    return [round(float(np.mean(gains)), 2), round(float(half), 2)]


def claims() -> None:
    """Write results/recipes.json and results/openauc-table2.json."""
    runs = read()
    about = {
        "machine": f"{runs[-1]['gpu']}, torch {runs[-1]['torch']}",
        "data": {r["data"]: r["note"] or "as published" for r in runs},
        "seeds": sorted({r["seed"] for r in runs}),
        "n": len(runs),
    }
    rows, table_2 = [], []
    file = resources.files("openset.reproduce") / "published/openauc-table2.json"
    paper = json.loads(file.read_text(encoding="utf-8"))["values"]
    for one, by_variant in groups(runs):
        for variant, own in by_variant.items():
            row = one | {"variant": variant, "runs": len(own)}
            row["accuracy"] = mean(own, "accuracy")
            for score in ("maxlogit", "msp", "published"):
                row[score] = mean(own, f"openauc_{score}")
            base = by_variant.get("ceplus", [])
            for score in ("maxlogit", "msp") if variant != "ceplus" else ():
                name = f"openauc_{score}"
                row[f"{score}_gain"] = difference(own, base, name)
            rows.append(row)
            if variant in TABLE_2 and not row["inner"]:
                of_paper = paper[TABLE_2[variant]][COLUMNS[one["data"]]]
                table_2.append({"paper": of_paper} | row)
    save_claim(
        "recipes",
        "OpenAUC of training methods and recipes, in percent: mean and standard "
        "deviation over runs; gains over ceplus with half a 95 % t interval over "
        "splits.",
        rows,
        **about,
    )
    save_claim(
        "openauc-table2",
        "Rows of Table 2 of the OpenAUC paper that were trained, in percent.",
        table_2,
        **about,
    )


def main() -> None:
    """Train, or write the claims."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", action="store_true", help="write the claims only")
    parser.add_argument("--data", default="cifar10", choices=COLUMNS)
    parser.add_argument("--root", help="folder of the data sets")
    parser.add_argument("--variants", nargs="+", default=["openset"], choices=VARIANTS)
    parser.add_argument("--budget", type=float, default=100.0, help="image passes")
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 2, 3, 4])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--inner", action="store_true", help="inner problems")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction)
    parser.add_argument("--seconds", type=int, default=0, help="stop after; goes on")
    parser.add_argument("--keep", type=Path, default=Path("runs/keep"))
    parser.add_argument("--tiny", action="store_true", help="try it on a CPU")
    args = parser.parse_args()
    if args.claims:
        claims()
        return
    if not args.tiny:
        need_gpu("; --tiny tries it on the CPU")
    train_missing(args)


if __name__ == "__main__":
    main()
