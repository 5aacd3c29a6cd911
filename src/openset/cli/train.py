"""`openset train`."""

import json
import shlex
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from openset import _check, protocols
from openset._types import MissingExtraError
from openset.cli._lists import plain_table
from openset.cli._tables import ERRORS, OUT
from openset.protocols import Protocol

EPILOG = """[bold]Examples[/bold]

openset train --method openauc --data cifar10 --split 0 --recipe B \\
    --out runs/openauc

openset train -m ceplus --data cifar10 --all-splits --seeds 3 --epochs 100 \\
    --out runs/ce

openset train -m openauc --data svhn --tune weight=0.05,0.1,0.2 \\
    --out runs/tuned

torchrun --nproc-per-node 4 -m openset train -m softmax --data cub \\
    --network timm:resnet50 --devices 4 --out runs/cub"""

_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
_CALLER = "openset train"


def command(
    method: Annotated[
        str, typer.Option("--method", "-m", help="Training method (see --list).")
    ] = "",
    data: Annotated[
        str, typer.Option(help="Name of a data set, a .npz file or an image folder.")
    ] = "",
    protocol: Annotated[
        str,
        typer.Option(
            help="A published protocol, or a JSON file of one. Default: the one of the "
            "data set's name."
        ),
    ] = "",
    split: Annotated[str, typer.Option(help="Which split. Default: the first.")] = "",
    all_splits: Annotated[
        bool, typer.Option("--all-splits", help="All of them, at once on one device.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option(help="How many seeds, from that one on.")] = 1,
    recipe: Annotated[str, typer.Option(help="A, B or T.")] = "B",
    epochs: Annotated[int | None, typer.Option(help="Instead of the recipe's.")] = None,
    batch: Annotated[int | None, typer.Option(help="Instead of the recipe's.")] = None,
    lr: Annotated[float | None, typer.Option(help="Instead of the recipe's.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="An option of the method or the recipe, as NAME=VALUE: weight=0.2, "
            "preset=paper, smoothing=0.1, magnitude=9. Repeat it for several.",
        ),
    ] = None,
    tune: Annotated[
        list[str] | None,
        typer.Option(
            help="Try values of an option on held-out known classes first: "
            "weight=0.05,0.1,0.2. Test data are not looked at."
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(help="classifier32, osrci, mlp, torchvision:NAME or timm:NAME."),
    ] = None,
    validation: Annotated[
        float,
        typer.Option(help="Share of training samples kept for validation; 0: none."),
    ] = 0.1,
    root: Annotated[Path | None, typer.Option(help="Folder of the data.")] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the runs.")
    ] = Path("runs/train"),
    devices: Annotated[int, typer.Option(help="Devices per machine.")] = 1,
    nodes: Annotated[int, typer.Option(help="Machines, under torchrun.")] = 1,
    accelerator: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    precision: Annotated[
        str | None,
        typer.Option(help="32-true or bf16-mixed. Default: by device."),
    ] = None,
    accumulate: Annotated[
        int, typer.Option(help="Cut each batch into parts, to save memory.")
    ] = 1,
    compiled: Annotated[
        bool | None, typer.Option("--compile/--no-compile", help="Default: if it pays.")
    ] = None,
    curves: Annotated[
        bool,
        typer.Option("--curves", help="Test metrics after each epoch, for figures."),
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Log for TensorBoard, too.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--list", help="List the methods and their options.")
    ] = False,
) -> None:
    """Train a network by a published method.

    Ends with the outputs of the training, validation and test part on disk, so that
    every detector, metric and report can go on from there. The last epoch counts:
    nothing is chosen by looking at test data. A run that was interrupted goes on.
    """
    train = _library()
    if show:
        OUT.print(_methods(train.methods.REGISTRY))
        return
    for name, value in (("--method", method), ("--data", data)):
        if not value:
            msg = f"{_CALLER}: {name} must be given, got none. See openset train --help"
            raise ValueError(msg)
    taken = list(train.methods.find(method).options())
    options, changes = _settings(settings or [], taken, train.recipes.changeable())
    given = {"epochs": epochs, "batch": batch, "lr": lr}
    changes |= {name: value for name, value in given.items() if value is not None}
    named = _protocols(protocol, data, split, all_splits=all_splits)
    grid = _grid(tune or [], taken)
    numbers = range(seed, seed + _check.positive_int(_CALLER, "--seeds", seeds))
    several = len(named) * seeds > 1
    folders = {
        (name, number): out / _folder(name, number) if several else out
        for name in named
        for number in numbers
    }
    for folder in folders.values():
        train.check_folder(_CALLER, "--out", folder)
    fabric = train.make_fabric(accelerator, devices, nodes, precision, method=method)
    common: dict[str, Any] = {
        "method": method,
        "recipe": recipe,
        "network": network,
        "precision": fabric.asked_precision,
        "accumulate": accumulate,
        **changes,
    }
    loaded = train.load_data(data, root)
    jobs = {}
    for name, one in named.items():
        # Cut once; seeds share the samples.
        first = train.job(
            data=loaded,
            protocol=one,
            root=root,
            validation=validation,
            options=options,
            **common,
        )
        if grid:
            # Each split by itself: a known class of one is unknown in another.
            first = _tuned(train, first, name, grid, fabric, seed=seed, **common)
        for number in numbers:
            title = f"split {name}, seed {number}"
            jobs[title] = replace(
                first,
                spec=replace(first.spec, seed=number),
                out=folders[name, number],
                title=f"{method}, {title}",
            )
    try:
        done = train.fit_jobs(
            jobs.values(),
            fabric,
            compiled=compiled,
            curves=curves,
            tensorboard=tensorboard,
        )
    except KeyboardInterrupt:
        if fabric.global_rank == 0:
            ERRORS.print(
                "Interrupted. The same command goes on from the last checkpoint: there "
                "is one every half minute.",
                soft_wrap=True,
            )
        raise
    if fabric.global_rank == 0:
        title = train.methods.find(method).title
        OUT.print(_results(title, dict(zip(jobs, done, strict=True))))
        first_folder = next(iter(folders.values()))
        _say_what_next(first_folder, list(named.values()), several=several)


def _library() -> Any:
    try:
        from openset import train  # noqa: PLC0415  # torch takes seconds: not for --help
    except ImportError as error:
        msg = f"{_CALLER}: needs torch; install it with: pip install 'openset[torch]'"
        raise MissingExtraError(msg) from error
    return train


def _methods(registry: Any) -> Table:
    table = plain_table("Training methods")
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("paper")
    table.add_column("score", no_wrap=True)
    table.add_column("options")
    for name, method in registry.items():
        found = (f"{k}={_text(v)}" for k, v in method.options().items())
        table.add_row(name, method.paper, method.score, ", ".join(found))
    return table


def _text(value: Any) -> str:
    return "…" if value is None else str(value)


def _settings(
    texts: list[str], taken: list[str], changeable: list[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sort NAME=VALUE into options of the method and changes of the recipe."""
    options: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    for text in texts:
        name, value = _pair("--set", text)
        if name not in (*taken, *changeable):
            msg = _check.must(
                f"an option of the method ({', '.join(taken)}) or of the recipe "
                f"({', '.join(changeable)})",
                caller=_CALLER,
                name="--set",
                got=repr(name),
                remedy=_check.near(name, [*taken, *changeable]),
            )
            raise ValueError(msg)
        # Some belong to both: the size of images, to a generator and to the pipeline.
        if name in taken:
            options[name] = _value(value)
        if name in changeable:
            changes[name] = _value(value)
    return options, changes


def _grid(texts: list[str], taken: list[str]) -> dict[str, list[Any]]:
    grid = {}
    for text in texts:
        name, values = _pair("--tune", text)
        _check.one_of(_CALLER, "--tune", name, sorted(taken))
        grid[name] = [_value(value) for value in values.split(",")]
    return grid


def _pair(flag: str, text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not (name and found and value):
        rule = "NAME=VALUE"
        raise ValueError(_check.must(rule, caller=_CALLER, name=flag, got=repr(text)))
    return name, value


def _value(text: str) -> Any:
    if text.lower() in _TRUTHS:
        return _TRUTHS[text.lower()]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _protocols(
    name: str, data: str, split: str, *, all_splits: bool
) -> dict[str, Protocol]:
    """Return the protocols to train, by the name of their split."""
    if split and all_splits:
        rule, got = "left out with --all-splits", repr(split)
        raise ValueError(_check.must(rule, caller=_CALLER, name="--split", got=got))
    if name.endswith(".json"):
        found = protocols.load(name)
        listed = [found] if isinstance(found, Protocol) else list(found)
        drawn = {str(i): one for i, one in enumerate(listed)}
        if split and split not in drawn:
            rule = f"one of {', '.join(drawn)}, as in {name}"
            msg = _check.must(rule, caller=_CALLER, name="--split", got=repr(split))
            raise ValueError(msg)
        chosen = split or "0"
        return drawn if all_splits else {chosen: drawn[chosen]}
    name = name or data
    if name not in protocols.names():
        msg = _check.must(
            f"one of {', '.join(protocols.names())}, or a .json file",
            caller=_CALLER,
            name="--protocol",
            got=repr(name),
            remedy="Draw one: openset protocols holdout --help",
        )
        raise ValueError(msg)
    every = protocols.splits(name)
    wanted = every if all_splits else [_value(split) if split else every[0]]
    return {str(one): protocols.published(name, one) for one in wanted}


def _folder(split: str, seed: int) -> str:
    return f"split{split}-seed{seed}"


def _results(method: str, done: dict[str, Any]) -> Table:
    table = plain_table(f"{method}, test part, last epoch")
    table.add_column("run", no_wrap=True)
    columns = ("accuracy", "AUROC", "OpenAUC", "by max logit", "by max probability")
    for column in columns:
        table.add_column(column, justify="right")
    rows = []
    for name, one in done.items():
        own = one.evaluate("own")
        row = [own["accuracy"], own["auroc"], own["openauc"]]
        row += [one.evaluate(rule)["openauc"] for rule in ("maxlogit", "msp")]
        rows.append(row)
        table.add_row(name, *(f"{value:.4f}" for value in row))
    if len(rows) > 1:
        table.add_section()
        for name, summary in (("mean", statistics.mean), ("sd", statistics.stdev)):
            cells = (f"{summary(column):.4f}" for column in zip(*rows, strict=True))
            table.add_row(name, *cells)
    return table


def _tuned(
    train: Any,
    first: Any,
    split: str,
    grid: dict[str, list[Any]],
    fabric: Any,
    **settings: Any,
) -> Any:
    """Return the job with the options that did best on held-out known classes."""
    options = first.spec.options
    found = train.tune(
        grid=grid, cut=first.cut, options=options, fabric=fabric, **settings
    )
    if fabric.global_rank == 0:
        OUT.print(_tuning(split, found))
    return replace(first, spec=replace(first.spec, options=found.options))


def _tuning(split: str, tuned: Any) -> Table:
    table = plain_table(f"Split {split}, on held-out known classes")
    table.add_column("options")
    table.add_column("OpenAUC, mean", justify="right")
    table.add_column("each draw", justify="right")
    best = max(row["openauc"] for row in tuned.table)
    for row in tuned.table:
        text = ", ".join(f"{k}={v}" for k, v in row["options"].items())
        mean = f"{row['openauc']:.4f}"
        mark = "bold green" if row["openauc"] == best else ""
        draws = ", ".join(f"{value:.4f}" for value in row["draws"])
        table.add_row(text, mean, draws, style=mark)
    return table


def _say_what_next(run: Path, trained: list[Protocol], *, several: bool) -> None:
    same = protocols.Draws(tuple(trained)).duplicates
    if same:
        OUT.print(
            "[yellow]Some of these splits are the same problem[/yellow] "
            f"({'; '.join(' = '.join(map(str, group)) for group in same)}): the spread "
            "over splits is too small.",
            highlight=False,
        )
    where = escape(shlex.quote(str(run)))
    others = ", and so on for every run" if several else ""
    OUT.print(
        f"Outputs are in {where}/outputs, scores in {where}/scores{others}. Next: "
        f"[bold]openset evaluate {where}/scores/own.npz[/bold], or any detector: "
        f"[bold]openset score -d postmax --train {where}/outputs/train.npz "
        f"{where}/outputs/test.npz[/bold]. The network on other data: "
        f"[bold]openset extract {where} DATA[/bold]",
        highlight=False,
        soft_wrap=True,
    )
