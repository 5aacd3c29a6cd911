"""`openset train`."""

import os
import statistics
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

import openset
from openset.cli.options import Root, read, refuse, settings, spec
from openset.cli.terminal import say, table, warn

Settings = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE")]
Grid = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE,VALUE,...")]


def command(
    data: str = "",
    method: Annotated[str, typer.Option("--method", "-m")] = "ceplus",
    protocol: str | None = None,
    known: Annotated[str, typer.Option(metavar="NAME,NAME,...")] = "",
    split: str | None = None,
    seed: int = 0,
    seeds: Annotated[int, typer.Option(min=1)] = 1,
    recipe: str = "ceplus",
    epochs: int | None = None,
    network: str | None = None,
    pretrained: Annotated[bool, typer.Option("--pretrained")] = False,
    weights: Path | None = None,
    negatives: str | None = None,
    changes: Settings = None,
    tune: Grid = None,
    root: Root = None,
    out: Annotated[Path, typer.Option("--out", "-o")] = Path("runs/train"),
    listed: Annotated[bool, typer.Option("--list")] = False,
) -> None:
    """Train a network with a published method.

    Writes the outputs of the training, validation and test parts, for every detector,
    metric and report to use. The network of the last epoch is the result: nothing is
    chosen by looking at test data. An interrupted run is continued by the same command.

        openset train --data digits --epochs 100 --out runs/digits
        openset train -m openauc:weight=0.2 --data cifar10 --split 0 --out runs/openauc
        openset train -m ceplus --data cifar10 --split all --seeds 3 --set lr=0.1
        openset train -m ceplus --data cifar10 --recipe openset --out runs/ours
        openset train -m openauc --data svhn --tune weight=0.05,0.1,0.2 --out runs/tuned
        openset train -m outlier_exposure --data cifar10 --negatives svhn --out runs/oe
        openset train -m mypackage.losses:MyMethod --data cifar10 --out runs/mine
        torchrun --nproc-per-node 4 -m openset train -m softmax --data cub --network timm:resnet50 --set devices=4 --out runs/cub

    Parameters
    ----------
    data
        Name of a data set, a .npz file or an image folder.
    method
        Training method (--list), or package.module:Class, with options after a colon:
        openauc:weight=0.2,preset=paper.
    protocol
        Name of a published protocol, or a JSON file (default: the published protocol of
        the data set; else known and unknown classes are drawn).
    known
        Names of the known classes, instead of a protocol. All other classes of the data
        are unknown: they are tested, but not trained on.
    split
        Split of the protocol (default: the first); all: every one, at the same time on
        one device.
    seed
        Random seed; with --seeds, the first one.
    seeds
        Number of runs, each with the next seed.
    recipe
        Published recipe: arpl (100 epochs), ceplus (600 epochs, strong augmentation) or
        torchosr (128 epochs); or openset, our own (it processes as many images as
        ceplus).
    epochs
        Number of epochs (default: the recipe's).
    network
        Network to train: classifier32, osrci, mlp or timm:NAME (default: classifier32
        for images, mlp for tables).
    pretrained
        For timm: start from the published weights, with a new last layer; they are
        downloaded if they are not on this machine (default: random weights). The
        recipe's learning rate is usually too large for them: --set lr=0.01.
    weights
        For timm: start from this file of weights (.safetensors, .pth).
    negatives
        Data set of samples that belong to no known class, for methods that train with
        negatives (default: the negative classes of the protocol).
    changes
        Any other setting of openset.train.fit or of the recipe: lr=0.01, batch=64,
        auxiliary=rotation, validation=0, max_train=1000, devices=4,
        precision=bf16-mixed, curves=true. May be repeated.
    tune
        First find the best of these values, by training on some of the known classes
        with the others as unknowns; test data are not used. For an option of the method
        (weight=0.05,0.1), of the recipe (auxiliary=none,rotation), or the recipe
        (recipe=ceplus,openset). May be repeated.
    out
        Folder for the results.
    listed
        List the methods and their options, then exit.
    """  # noqa: E501  # commands can be pasted
    train = openset.train
    if listed:
        table(map(_summary, train.names()), "Training methods")
        return
    refuse(not data, "--data must be given")
    refuse(pretrained and weights, "--pretrained and --weights exclude each other")
    both = known and (protocol or split)
    refuse(both, "--known takes the place of --protocol and --split")
    name, options = spec(method)
    given = settings(changes or ())
    of_machine = {f.name for f in fields(train.Execution)} & given.keys()
    execution = {key: given.pop(key) for key in of_machine}
    loaded = openset.datasets.load(data, root)
    others = loaded if negatives == data else negatives
    if negatives and others is not loaded:
        others = openset.datasets.load(negatives, root)  # once for all runs
    common: dict[str, Any] = {
        "method": name,
        "options": options,
        "data": loaded,
        "recipe": recipe,
        "network": network,
        "pretrained": weights or pretrained,
        "negatives": others,
        "root": root,
    }
    if epochs is not None:
        common["epochs"] = epochs
    problems = _problems(loaded, protocol, split, known)
    several = len(problems) * seeds > 1
    jobs = {
        (key, number): train.Job.of(
            **common,
            **problem,
            **given,
            seed=number,
            out=out / f"split{key}-seed{number}" if several else out,
            title=f"{name}, split {key}, seed {number}",
        )
        for key, problem in problems.items()
        for number in range(seed, seed + seeds)
    }
    is_main = os.environ.get("RANK", "0") == "0"  # of those that torchrun starts
    if tune:
        # Each split separately: a known class of one is unknown in another.
        how: dict[str, Any] = {"grid": _grid(tune), "seed": seed} | common | given
        for key, problem in problems.items():
            tuned = train.tune(**how, **problem, **execution)
            jobs |= {at: tuned.apply(job) for at, job in jobs.items() if at[0] == key}
            if is_main:
                _print_tuned(key, tuned.table)
    folders = [Path(str(job.out)) for job in jobs.values()]
    n_read = sum((folder / "trained.json").exists() for folder in folders)
    done = train.fit_jobs(jobs.values(), train.Execution(**execution))
    if is_main:
        if n_read:
            say(f"finished before, and not trained again: {n_read} of {len(jobs)}")
        _print_done(train.methods.find(name).title, [*jobs], done)
        say(f"Next: openset evaluate {folders[0]}/scores/published.npz")
        say(f"      openset calibrate --run {folders[0]} --out rejector/")


def _summary(name: str) -> dict[str, Any]:
    kind = openset.train.methods.find(name)
    options = [f"{key}={value}" for key, value in kind.options().items()]
    return {"name": name, "paper": kind.paper, "score": kind.score, "options": options}


def _problems(
    data: Any, name: str | None, split: str | None, known: str
) -> dict[str, dict[str, Any]]:
    """Return protocol and split of each problem to train, by the name of the split."""
    protocols = openset.protocols
    if known:
        names = [one.strip() for one in known.split(",")]
        others = [one for one in data.classes if one not in names]
        refuse(not others, "--known must leave some classes of the data, to be tested")
        parts = {"known": names, "unknown": others, "source": data.label_set}
        return {"0": {"protocol": protocols.Protocol(**parts)}}
    of = name or data.label_set or data.name
    every: Sequence[Any]
    if of.endswith(".json"):
        found = protocols.load(of)
        every = range(len(getattr(found, "protocols", (found,))))
    elif name or of in protocols.names():
        every = protocols.splits(of)
    else:
        every = range(len(protocols.default(data)))
    keys = every if split == "all" else [every[0] if split is None else split]
    return {str(key): {"protocol": name, "split": key} for key in keys}


def _grid(texts: list[str]) -> dict[str, list[Any]]:
    pairs = (text.partition("=") for text in texts)
    return {name: [read(one) for one in values.split(",")] for name, _, values in pairs}


def _print_tuned(split: str, tried: list[dict[str, Any]]) -> None:
    rows = [
        {
            "values": ", ".join(f"{k}={v}" for k, v in row["options"].items()),
            "OpenAUC, mean": row["openauc"],
            "each draw": ", ".join(f"{value:.4f}" for value in row["draws"]),
        }
        for row in tried
    ]
    best = max(range(len(rows)), key=lambda i: tried[i]["openauc"])
    table(rows, f"Split {split}, on held-out known classes", bold=best)
    say(f"Split {split} is trained with {rows[best]['values']}.")


def _print_done(title: str, keys: list[tuple[str, int]], done: list[Any]) -> None:
    """Print the results of all runs; name splits that are the same problem."""
    shown = [openset.metrics.get(name) for name in ("accuracy", "auroc", "openauc")]
    values = (one.evaluate("published") for one in done)
    found = [{metric.short: row[metric.key] for metric in shown} for row in values]
    rows = [
        {"run": f"split {split}, seed {seed}", **row}
        for (split, seed), row in zip(keys, found, strict=True)
    ]
    if len(rows) > 1:
        for name, of in (("mean", statistics.mean), ("sd", statistics.stdev)):
            rows.append({"run": name} | {k: of(r[k] for r in found) for k in found[0]})
    table(rows, f"{title}, test part, last epoch")
    protocols = openset.protocols
    each = [protocols.Protocol.from_dict(one.spec["protocol"]) for one in done]
    for places in protocols.Draws(tuple(each)).duplicates:
        splits = dict.fromkeys(keys[i][0] for i in places)
        if len(splits) > 1:
            same = f"Splits {', '.join(splits)} are the same problem"
            warn(f"{same}: the standard deviation over splits is too small")
