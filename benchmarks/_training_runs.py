"""Many training runs on one GPU: one JSON line each, and paired differences of them.

A run is a variant (method, recipe, options) on a problem with a seed. The problem is a
published split (``0``), or a problem made of the *training part* of that split alone
(``inner-0``): two of its six known classes play the unknown, a fifth of the samples is
the test part. Choose by inner problems only.

`--tiny` tries a command without a GPU: the same code on a few images of each class, for
a budget of 2, in minutes on a CPU. Its numbers mean nothing and go to ``runs/tiny``.
"""

import argparse
import json
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

METRICS = ("openauc", "auroc", "partial_openauc")
SCORES = ("maxlogit", "msp")
_CHECKPOINT_SECONDS = 15.0
_INNER = "inner-"
_TINY_IMAGES, _TINY_BUDGET, _TINY_FOLDER = 10, 2.0, Path("runs/tiny")  # per class


@dataclass(frozen=True)
class Variant:
    """What is compared: a method with its options, a recipe with its changes."""

    method: str = "ceplus"
    recipe: str = "ceplus"
    options: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)


class TimeIsUp(BaseException):
    """Raised by the alarm; no library may take it for an error of its own."""


def add_options(parser: argparse.ArgumentParser, variants: Iterable[str]) -> None:
    """Add the options that :func:`train_all` reads."""
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--root", default=None, help="folder of the data sets")
    parser.add_argument(
        "--budgets",
        nargs="+",
        type=float,
        default=[100],
        help="passes of images through the network, in passes over the data",
    )
    parser.add_argument("--variants", nargs="+", default=list(variants))
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 2, 3, 4])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--inner", action="store_true", help="inner problems")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction)
    parser.add_argument(
        "--seconds",
        type=int,
        default=0,
        help="stop after so many seconds; the same command goes on",
    )
    parser.add_argument("--keep", type=Path, default=None, help="checkpoints")
    parser.add_argument(
        "--tiny", action="store_true", help="try the command on a CPU, in runs/tiny"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/results"))
    parser.add_argument(
        "--outputs", type=Path, default=None, help="keep outputs, for detectors"
    )


def need_gpu(remedy: str = "") -> None:
    """End the program where there is no GPU, before anything is read or written."""
    import torch

    if not torch.cuda.is_available():
        msg = f"this needs a GPU, and torch finds none{remedy}"
        raise SystemExit(msg)


def few(data: Any) -> Any:
    """Return the data set with some images of each class in each part."""
    parts = {}
    for name, rows in data.parts.items():
        labels = data.labels[rows]
        first = [rows[labels == one][:_TINY_IMAGES] for one in np.unique(labels)]
        parts[name] = np.sort(np.concatenate(first))
    return replace(data, parts=parts)


def key_of(line: Mapping[str, Any]) -> tuple[Any, ...]:
    """Name a run; where no budget is recorded, an epoch is one pass."""
    first = tuple(line[k] for k in ("data", "variant", "split", "seed"))
    return (*first, float(line.get("budget", line["epochs"])))


def read(*folders: Path) -> list[dict[str, Any]]:
    """Return the runs of some folders."""
    files = [folder / "runs.jsonl" for folder in folders]
    texts = [file.read_text() for file in files if file.exists()]
    return [json.loads(line) for text in texts for line in text.splitlines() if line]


def train_all(args: argparse.Namespace, variants: Mapping[str, Variant]) -> None:
    """Train what is not there yet, several runs at a time, until the time is up."""
    if args.tiny:
        args.out = args.keep = _TINY_FOLDER
        args.budgets, args.outputs = [_TINY_BUDGET], None
    elif args.seconds and args.keep is None:
        msg = "--keep must be given with --seconds, got none: it has the checkpoints"
        raise SystemExit(msg)
    else:
        need_gpu("; --tiny tries it on the CPU")
    unknown = set(args.variants) - variants.keys()
    if unknown:
        listed = ", ".join(variants)
        msg = f"--variants must be among {listed}, got {unknown}"
        raise SystemExit(msg)
    args.out.mkdir(parents=True, exist_ok=True)
    done = {key_of(line) for line in read(args.out)}
    wanted = [
        {
            "data": args.data,
            "variant": variant,
            "split": f"{_INNER}{split}" if args.inner else split,
            "seed": seed,
            "budget": budget,
            "epochs": 0,  # follows from the budget
        }
        for budget in args.budgets
        for seed in args.seeds
        for variant in args.variants
        for split in args.splits
    ]
    waiting = [one for one in wanted if key_of(one) not in done]
    print(f"{len(waiting)} runs to go, {len(wanted) - len(waiting)} done", flush=True)

    def stop(*_: object) -> None:
        raise TimeIsUp

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(args.seconds)
    try:
        _train_groups(args, variants, waiting)
    except TimeIsUp:
        print("time is up: the same command goes on from the checkpoints", flush=True)
    finally:
        signal.alarm(0)


def _train_groups(
    args: argparse.Namespace,
    variants: Mapping[str, Variant],
    waiting: list[dict[str, Any]],
) -> None:
    from openset import datasets, train

    if not waiting:
        return
    data = datasets.load(args.data, args.root)
    if args.tiny:
        data = few(data)
    _need_same_pixels(args.out, args.data, data.note, args.budgets)
    narrow = {"width": 32} if args.tiny else {}  # of the generator of arpl_cs
    execution = train.Execution(
        compiled=args.compile, progress=False, checkpoint_seconds=_CHECKPOINT_SECONDS
    )
    problem = _problems(data, args.data)
    while waiting:
        # Runs of one length: none of them leaves the GPU to the others.
        length = waiting[0]["budget"]
        same = [one for one in waiting if one["budget"] == length][: args.at_once]
        waiting = [one for one in waiting if one not in same]
        jobs = []
        for one in same:
            variant = variants[one["variant"]]
            recipe = train.recipe(
                variant.recipe,
                args.data,
                method=variant.method,
                budget=length,
                **variant.changes,
            )
            one["epochs"] = recipe.epochs
            name = "-".join(map(str, key_of(one)))
            jobs.append(
                train.Job(
                    method=variant.method,
                    options={**variant.options}
                    | (narrow if variant.method == "arpl_cs" else {}),
                    recipe=recipe,
                    seed=one["seed"],
                    validation=0,
                    out=args.keep and args.keep / name,
                    **problem(one["split"], one["seed"]),
                )
            )
        started = time.time()
        found = train.fit_jobs(jobs, execution)
        seconds = time.time() - started
        with (args.out / "runs.jsonl").open("a") as stream:
            for one, trained in zip(same, found, strict=True):
                line = one | _measured(trained) | _machine()
                line |= {"group_seconds": seconds, "group_size": len(same)}
                line["note"] = data.note
                stream.write(json.dumps(line) + "\n")
                print(json.dumps(line), flush=True)
        _keep_logits(args.out, same, found)
        if args.outputs:
            _keep_outputs(args.outputs, same, found)
        passes = sum(len(one.outputs["train"]) for one in found) * length
        print(f"group: {seconds:.0f} s, {passes / seconds:,.0f} passes/s", flush=True)


def _need_same_pixels(out: Path, name: str, note: str, budgets: list[float]) -> None:
    """End the program if a table would mix runs on different pixels."""
    notes = {
        line["note"]
        for line in read(out)
        if line["data"] == name and key_of(line)[-1] in budgets
    }
    if notes - {note}:
        msg = (
            f"{out} has runs on {name} with other pixels ({notes - {note}}) than these "
            f"data ({note or 'as published'}): get the same data, or use another --out"
        )
        raise SystemExit(msg)


def _problems(data: Any, name: str) -> Callable[[int | str, int], dict[str, Any]]:
    """Return a function that gives the data of a job; inner problems are cut once."""
    from openset import datasets, protocols
    from openset.train.tune import inner_problems

    cuts: dict[tuple[str, int], Any] = {}

    def problem(split: int | str, seed: int) -> dict[str, Any]:
        if isinstance(split, int):
            return {"data": data, "split": split}
        if (split, seed) not in cuts:
            number = int(split.removeprefix(_INNER))
            outer = datasets.cut(data, protocols.published(name, number))
            (cuts[split, seed],) = inner_problems(outer, draws=1, seed=seed)
        return {"data": cuts[split, seed]}

    return problem


def _measured(trained: Any) -> dict[str, float]:
    from openset import metrics

    line = {}
    for rule in (*SCORES, "published"):
        for metric in METRICS:
            function = getattr(metrics, metric)
            line[f"{metric}_{rule}"] = function(trained.scores[rule])
    line["accuracy"] = metrics.accuracy(trained.scores["maxlogit"])
    line["train_loss"] = trained.log[-1]["loss"]
    # Of the device, beside the others of the group; kept over a stop and a restart.
    line["train_seconds"] = sum(one["seconds"] for one in trained.log)
    return line


def _machine() -> dict[str, str]:
    import torch

    is_gpu = torch.cuda.is_available()
    gpu = torch.cuda.get_device_name() if is_gpu else ""
    return {"gpu": gpu, "torch": torch.__version__}


def _keep_logits(folder: Path, same: list[dict[str, Any]], found: list[Any]) -> None:
    """Keep the test logits, for scores that were not thought of."""
    arrays = {
        "_".join(map(str, key_of(one))): trained.outputs["test"].logits.astype("f2")
        for one, trained in zip(same, found, strict=True)
    }
    first = "-".join(map(str, key_of(same[0])))
    np.savez_compressed(folder / f"logits-{first}.npz", **arrays)


def _keep_outputs(folder: Path, same: list[dict[str, Any]], found: list[Any]) -> None:
    """Keep outputs of the training and the test part; the run is told by the name."""
    for one, trained in zip(same, found, strict=True):
        name = "_".join(map(str, key_of(one)))
        for part in ("train", "test"):
            trained.outputs[part].save(folder / name / f"{part}.npz")


def mean(values: Iterable[float]) -> str:
    """Return mean and standard deviation, in percent."""
    percent = 100 * np.array(list(values))
    if percent.size < 2:
        return f"{percent.mean():.2f}"
    return f"{percent.mean():.2f} ± {percent.std(ddof=1):.2f}"


def difference(
    own: list[dict[str, Any]], base: list[dict[str, Any]], metric: str
) -> str:
    """Return the mean difference, paired by split and seed, and its 95 % t interval."""
    from scipy import stats

    by_problem = {(r["split"], r["seed"]): r for r in base}
    pairs = [(r, by_problem.get((r["split"], r["seed"]))) for r in own]
    found = np.array(
        [100 * (r[metric] - b[metric]) for r, b in pairs if b and metric in b]
    )
    if found.size < 2:
        return ""
    half = stats.t.ppf(0.975, found.size - 1) * stats.sem(found)
    return f"{found.mean():+.2f} ± {half:.2f}"
