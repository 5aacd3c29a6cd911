"""`openset train`."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from openset import _check
from openset.cli._console import OUT
from openset.cli._errors_in_options import LogTo, Root, need_root
from openset.cli._training_options import (
    library,
    load_data,
    naming_options,
    read_grid,
    read_settings,
    set_once,
)
from openset.cli._training_protocols import read_protocols
from openset.cli._training_report import (
    is_main_process,
    methods_table,
    run_title,
    say_done,
    say_start,
    say_tuned,
)
from openset.protocols import Protocol

EPILOG = """[bold]Examples[/bold]

openset train --data digits --epochs 100 --out runs/digits

openset train --method openauc --data cifar10 --split 0 --recipe ceplus \\
    --out runs/openauc

openset train -m ceplus --data cifar10 --all-splits --seeds 3 --epochs 100 \\
    --out runs/ce

openset train -m ceplus --data cifar10 --recipe openset --out runs/ours

openset train -m openauc --data svhn --tune weight=0.05,0.1,0.2 \\
    --out runs/tuned

openset train -m ceplus --data cifar10 --set budget=100 \\
    --tune weight_decay=1e-4,5e-4 --tune auxiliary=none,rotation \\
    --out runs/chosen

openset train -m outlier_exposure --data cifar10 --negatives svhn \\
    --out runs/outliers

openset train -m mypackage.losses:MyMethod --data cifar10 --out runs/mine

torchrun --nproc-per-node 4 -m openset train -m softmax --data cub \\
    --network timm:resnet50 --devices 4 --out runs/cub"""

_CALLER = "openset train"


def command(
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "-m",
            help="Training method: a name (see --list), or one of your own as "
            "package.module:Class.",
        ),
    ] = "ceplus",
    data: Annotated[
        str, typer.Option(help="Name of a data set, a .npz file or an image folder.")
    ] = "",
    protocol: Annotated[
        str,
        typer.Option(
            help="Name of a published protocol, or a JSON file (default: the published "
            "protocol of the data set; else known and unknown classes are drawn)."
        ),
    ] = "",
    known: Annotated[
        str,
        typer.Option(
            metavar="NAME,NAME,...",
            help="Names of the known classes, instead of a protocol. All other "
            "classes of the data are unknown: they are tested, but not trained on.",
        ),
    ] = "",
    split: Annotated[
        str, typer.Option(help="Split of the protocol (default: the first).")
    ] = "",
    all_splits: Annotated[
        bool,
        typer.Option(
            "--all-splits",
            help="Train all splits of the protocol, at the same time on one device.",
        ),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed; with --seeds, the first one.")
    ] = 0,
    seeds: Annotated[
        int, typer.Option(help="Number of runs, each with the next seed.")
    ] = 1,
    recipe: Annotated[
        str,
        typer.Option(
            help="Published recipe: arpl (100 epochs), ceplus (600 epochs, strong "
            "augmentation) or torchosr (128 epochs); or openset, our own (it "
            "processes as many images as ceplus)."
        ),
    ] = "ceplus",
    auxiliary: Annotated[
        str | None,
        typer.Option(
            help="rotation: also learn to predict by how many quarter turns an image "
            "was turned, which adds half a batch of turned images to each batch; none: "
            "do not (default: none; with recipe openset: rotation for photographs, "
            "none for digits, letters and textures)."
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Number of epochs (default: the recipe's).")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Batch size (default: the recipe's).")
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate (default: the recipe's).")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="An option of the method or the recipe, as NAME=VALUE: weight=0.2, "
            "preset=paper, smoothing=0.1, magnitude=9. May be repeated.",
        ),
    ] = None,
    tune: Annotated[
        list[str] | None,
        typer.Option(
            help="First find the best of these values, by training on some of the "
            "known classes with the others as unknowns; test data are not used. For "
            "an option of the method (weight=0.05,0.1,0.2), an option of the recipe "
            "(auxiliary=none,rotation) or the recipe (recipe=ceplus,openset). May be "
            "repeated."
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            help="Network to train: classifier32, osrci, mlp, "
            "torchvision:NAME or timm:NAME (default: classifier32 for images, mlp "
            "for tables)."
        ),
    ] = None,
    pretrained: Annotated[
        bool,
        typer.Option(
            "--pretrained",
            help="For torchvision and timm: start from the published weights, with a "
            "new last layer; they are downloaded if they are not on this machine "
            "(default: random weights).",
        ),
    ] = False,
    weights: Annotated[
        Path | None,
        typer.Option(
            help="For torchvision and timm: start from this file of weights "
            "(.safetensors, .pth), with a new last layer."
        ),
    ] = None,
    validation: Annotated[
        float,
        typer.Option(help="Share of training samples kept for validation; 0: none."),
    ] = 0.1,
    negatives: Annotated[
        str | None,
        typer.Option(
            help="Data set of samples that belong to no known class, for methods "
            "that train with negatives: a name, a .npz file or an image folder "
            "(default: the negative classes of the protocol)."
        ),
    ] = None,
    max_train: Annotated[
        int | None,
        typer.Option(help="Train on this many samples at most (default: all)."),
    ] = None,
    root: Root = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the results.")
    ] = Path("runs/train"),
    devices: Annotated[
        int,
        typer.Option(
            help="Number of devices (GPUs, or processes on the CPU) per machine."
        ),
    ] = 1,
    nodes: Annotated[
        int,
        typer.Option(
            help="Number of machines; start the command with torchrun on each."
        ),
    ] = 1,
    accelerator: Annotated[
        str,
        typer.Option(
            help="Device to train on: auto (a GPU if there is one), cpu or cuda."
        ),
    ] = "auto",
    precision: Annotated[
        str | None,
        typer.Option(
            help="Number format: 32-true or bf16-mixed (default: bf16-mixed on a GPU "
            "that supports it, else 32-true)."
        ),
    ] = None,
    compiled: Annotated[
        bool | None,
        typer.Option(
            "--compile/--no-compile",
            help="Compile the training step with torch.compile (default: for runs "
            "longer than a few minutes on a GPU).",
        ),
    ] = None,
    curves: Annotated[
        bool,
        typer.Option(
            "--curves",
            help="Also compute the test metrics after each epoch, for learning curves.",
        ),
    ] = False,
    log_to: LogTo = None,
    show: Annotated[
        bool,
        typer.Option("--list", help="List the methods and their options, then exit."),
    ] = False,
) -> None:
    """Train a network with a published method.

    Writes the outputs of the training, validation and test parts, for every detector,
    metric and report to use. The network of the last epoch is the result: nothing is
    chosen by looking at test data. An interrupted run is continued by the same command.
    """
    train = library()
    if show:
        OUT.print(methods_table(train.methods.REGISTRY))
        return
    if not data:
        msg = f"{_CALLER}: --data must be given, got none. See openset train --help"
        raise ValueError(msg)
    if pretrained and weights is not None:
        msg = f"{_CALLER}: --weights must be left out with --pretrained, got {weights}"
        raise ValueError(msg)
    need_root(_CALLER, root)
    read = cache(lambda: load_data(data, root, option="--data"))
    with naming_options(settings or [], tune or []):
        kind = train.methods.find(method)
        taken, changeable = list(kind.options()), train.recipes.changeable()
        options, changes = read_settings(settings or [], taken, changeable)
        given = {"epochs": epochs, "batch": batch, "lr": lr, "auxiliary": auxiliary}
        changes |= set_once(given, settings or [])
        named = read_protocols(
            protocol, data, split, read, known=known, all_splits=all_splits
        )
        grid = read_grid(tune or [], train.tunable(kind))
        execution: dict[str, Any] = {
            "accelerator": accelerator,
            "devices": devices,
            "nodes": nodes,
            "precision": precision,
            "compiled": compiled,
            "curves": curves,
            "log_to": log_to,
        }
        common: dict[str, Any] = {
            "method": method,
            "recipe": recipe,
            "network": network,
            "pretrained": pretrained if weights is None else weights,
            "validation": validation,
            "negatives": negatives,
            "max_train": max_train,
            "root": root,
            **changes,
        }
        numbers = range(seed, seed + _check.positive_int(_CALLER, "--seeds", seeds))
        several = len(named) * seeds > 1
        runs = {
            (split, number): train.Job.of(
                data=data,
                protocol=one,
                seed=number,
                options=options,
                out=out / f"split{split}-seed{number}" if several else out,
                title=f"{kind.name}, {run_title(split, number)}",
                **common,
            )
            for split, one in named.items()
            for number in numbers
        }
        machine = train.Execution(**execution)
        say_start(network, is_pretrained=bool(common["pretrained"]), changes=changes)
        loaded = read()
        if negatives is not None:
            # Loaded once for all runs.
            is_same = negatives == data
            common["negatives"] = (
                loaded if is_same else load_data(negatives, root, option="--negatives")
            )
        if grid:
            runs = _tuned(
                train,
                runs,
                named,
                grid=grid,
                data=loaded,
                seed=seed,
                options=options,
                **common,
                **execution,
            )
        jobs = [
            replace(job, data=loaded, negatives=common["negatives"])
            for job in runs.values()
        ]
        n_read = sum((Path(job.out) / "trained.json").exists() for job in jobs)
        done = _fit(train, jobs, machine)
    if is_main_process():
        if n_read:
            which = "This run was" if len(jobs) == 1 else f"{n_read} of the runs were"
            OUT.print(f"{which} finished before: nothing was trained again.")
        say_done(kind, runs, done, list(named.values()))


def _tuned(
    train: Any,
    runs: Mapping[tuple[str, int], Any],
    named: Mapping[str, Protocol],
    /,
    **settings: Any,
) -> dict[tuple[str, int], Any]:
    """Change the runs to what performed best on held-out known classes.

    Each split separately: a known class of one is unknown in another.
    """
    chosen = {}
    for split, protocol in named.items():
        chosen[split] = train.tune(protocol=protocol, **settings)
        say_tuned(split, chosen[split])
    return {key: chosen[key[0]].apply(job) for key, job in runs.items()}


def _fit(train: Any, jobs: list[Any], machine: Any) -> list[Any]:
    """Train; Ctrl-C ends it with how to continue, said by one process."""
    try:
        return train.fit_jobs(jobs, machine)
    except KeyboardInterrupt:
        if not is_main_process():
            raise typer.Exit(130) from None
        advice = (
            "Run the same command again to continue from the last "
            "checkpoint, at most half a minute old."
        )
        raise KeyboardInterrupt(advice) from None
