"""`openset train`."""

import json
import re
import shlex
import statistics
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from openset import _check, datasets, protocols
from openset._types import MissingExtraError, TrainingWarning
from openset.cli._console import ERRORS, OUT
from openset.cli._lists import plain_table
from openset.cli._options import LogTo, naming, need_root
from openset.datasets import Dataset
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

_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
_CALLER = "openset train"
_SHOWN = 8
# Parameters of `train.fit` that are options here, by the name of the option.
_OPTIONS = {
    name: f"--{name}"
    for name in (
        *("method", "data", "protocol", "split", "seed", "recipe", "epochs", "batch"),
        *(
            "auxiliary",
            "lr",
            "network",
            "validation",
            "negatives",
            "root",
            "out",
            "devices",
            "nodes",
            "curves",
        ),
        *("accelerator", "precision", "accumulate"),
    )
} | {
    "compiled": "--compile",
    "pretrained": "--pretrained or --weights",
    "max_train": "--max-train",
    "log_to": "--log-to",
}


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
    root: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the data sets "
            "(default: $OPENSET_DATA, else the user's cache)."
        ),
    ] = None,
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
    accumulate: Annotated[
        int,
        typer.Option(
            help="Split each batch into this many parts and add up their "
            "gradients, to save memory."
        ),
    ] = 1,
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
    train = _library()
    if show:
        OUT.print(_methods(train.methods.REGISTRY))
        return
    if not data:
        msg = f"{_CALLER}: --data must be given, got none. See openset train --help"
        raise ValueError(msg)
    need_root(_CALLER, root)
    read = cache(lambda: _load(data, root, option="--data"))
    with _naming_options():
        kind = train.methods.find(method)
        taken = list(kind.options())
        options, changes = _settings(settings or [], taken, train.recipes.changeable())
        given = {"epochs": epochs, "batch": batch, "lr": lr, "auxiliary": auxiliary}
        changes |= {name: value for name, value in given.items() if value is not None}
        if known:
            _need_no_protocol(protocol, split, all_splits=all_splits)
            named = {"0": _of_known(known, read())}
        else:
            named = _protocols(protocol, data, split, read, all_splits=all_splits)
        grid = _grid(tune or [], train.tuning.tunable(kind))
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
            "accumulate": accumulate,
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
                title=f"{kind.name}, {_title(split, number)}",
                **common,
            )
            for split, one in named.items()
            for number in numbers
        }
        machine = train.Execution(**execution)
        _say_start(network, is_pretrained=bool(common["pretrained"]), changes=changes)
        loaded = read()
        if negatives is not None:
            # Loaded once for all runs.
            is_same = negatives == data
            common["negatives"] = (
                loaded if is_same else _load(negatives, root, option="--negatives")
            )
        if grid:
            # Each split separately: a known class of one is unknown in another.
            chosen = {
                name: _tuned(
                    train,
                    name,
                    grid=grid,
                    data=loaded,
                    protocol=one,
                    seed=seed,
                    options=options,
                    **common,
                    **execution,
                )
                for name, one in named.items()
            }
            runs = {key: chosen[key[0]].apply(job) for key, job in runs.items()}
        jobs = [
            replace(job, data=loaded, negatives=common["negatives"])
            for job in runs.values()
        ]
        try:
            done = train.fit_jobs(jobs, machine)
        except KeyboardInterrupt:
            if not _is_main_process():
                raise typer.Exit(130) from None
            advice = (
                "Run the same command again to continue from the last "
                "checkpoint, at most half a minute old."
            )
            raise KeyboardInterrupt(advice) from None
    if _is_main_process():
        _say_cautions(kind, runs.values())
        titles = [_title(*key) for key in runs]
        OUT.print(_results(kind.title, dict(zip(titles, done, strict=True))))
        first = Path(next(iter(runs.values())).out)
        _say_what_next(first, list(named.values()), several=several)


def _load(name: str, root: Path | None, *, option: str) -> Dataset:
    """Load a data set; errors name the option it comes from."""
    with naming(_CALLER, {"name": option}):
        return datasets.load(name, root)


@contextmanager
def _naming_options() -> Iterator[None]:
    """Let errors of the library name the options of this command.

    What the library warns of is said here in the words of the command.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)
            yield
    except (ValueError, TypeError, FloatingPointError) as error:
        if len(error.args) == 1 and isinstance(error.args[0], str):
            error.args = (_as_typed(error.args[0]),)
        raise


def _as_typed(message: str) -> str:
    """Write parameters of the library as options of the command.

    Examples
    --------
    >>> _as_typed("train.fit: accelerator must be there. Use accelerator='cpu'")
    'openset train: --accelerator must be there. Use --accelerator cpu'
    >>> _as_typed("train.recipe: cycle must be left out. It needs schedule='cosine'")
    'openset train: --set cycle must be left out. It needs --set schedule=cosine'
    """
    caller = re.match(
        r"(train(\.\w+)?|Pipeline|method \w+|protocols\.default): ", message
    )
    if caller is None:
        return message
    message = message[caller.end() :]
    settable = _settable(caller[0])

    def option(name: str, value: str = "") -> str:
        if name in _OPTIONS:
            return f"{_OPTIONS[name]} {value}".strip()
        return f"--set {name}={value}" if value else f"--set {name}"

    def assigned(found: re.Match[str]) -> str:
        name, value = found[1], found[2].strip("'").replace(", ", ",")
        return option(name, value) if name in settable else found[0]

    subject, must, rest = message.partition(" must be ")
    words = subject.split(" ")
    if all(word in {*settable, "times"} for word in words):
        subject = " ".join(option(w) if w in settable else w for w in words)
    value = r"('[^']*'|\[[^\]]*\]|[-+]?\w+(?:\.\w+)?(?:[-+]\d+)?|)"
    text = re.sub(rf"\b(\w+)={value}", assigned, subject + must + rest)
    return f"{_CALLER}: {text}"


def _settable(caller: str) -> set[str]:
    """Return what can be set from the command line."""
    train = _library()
    names = {*_OPTIONS, *train.recipes.changeable()}
    kind, _, name = caller.rstrip(": ").partition(" ")
    if kind == "method" and name in train.methods.REGISTRY:
        names |= set(train.methods.REGISTRY[name].options())
    return names


def _is_main_process() -> bool:
    from torch import distributed  # noqa: PLC0415  # slow: not for --help

    is_one_of_many = distributed.is_available() and distributed.is_initialized()
    return not is_one_of_many or distributed.get_rank() == 0


def _title(split: str, seed: int) -> str:
    return f"split {split}, seed {seed}"


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
        # Some belong to both: `side` is an option of ARPL+CS's generator and of the
        # pipeline.
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


def _say_start(
    network: str | None, *, is_pretrained: bool, changes: Mapping[str, Any]
) -> None:
    """Say what is rarely meant: random weights, or their learning rate for others."""
    note = ""
    if is_pretrained and "lr" not in changes:
        note = (
            "The learning rate of the recipe is for random weights, and usually "
            "too large for pretrained ones. To fine-tune: --lr 0.01"
        )
    elif ":" in (network or "") and not is_pretrained:
        note = (
            f"{network} starts from random weights. To fine-tune: --pretrained, or "
            "--weights FILE"
        )
    if note and _is_main_process():
        ERRORS.print(escape(note), highlight=False, soft_wrap=True)


def _need_no_protocol(protocol: str, split: str, *, all_splits: bool) -> None:
    others = {"--protocol": protocol, "--split": split, "--all-splits": all_splits}
    for name, got in others.items():
        if got:
            rule = "left out with --known"
            raise ValueError(_check.must(rule, caller=_CALLER, name=name, got=got))


def _of_known(text: str, data: Dataset) -> Protocol:
    """Return the protocol in which the classes that are named are known."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        _check.one_of(_CALLER, "--known", name, data.classes)
    others = [name for name in data.classes if name not in names]
    if not others:
        msg = _check.must(
            "some of the classes of the data, so that others can be tested",
            caller=_CALLER,
            name="--known",
            got="all of them",
            remedy="Add samples of something else to the data, as one more class",
        )
        raise ValueError(msg)
    return Protocol(known=tuple(names), unknown=tuple(others), source=data.label_set)


def _protocols(
    name: str,
    data: str,
    split: str,
    read: Callable[[], Dataset],
    *,
    all_splits: bool,
) -> dict[str, Protocol]:
    """Return the protocols to train, by the name of their split."""
    if split and all_splits:
        rule, got = "left out with --all-splits", repr(split)
        raise ValueError(_check.must(rule, caller=_CALLER, name="--split", got=got))
    given, name = name, name or data
    if not given and data not in protocols.names():
        name = read().label_set or data  # classes of a published data set
    if name.endswith(".json"):
        found = protocols.load(name)
        listed = [found] if isinstance(found, Protocol) else list(found)
        every = {str(i): one for i, one in enumerate(listed)}
    elif name in protocols.names():
        every = {str(i): protocols.published(name, i) for i in protocols.splits(name)}
    elif not given:
        drawn = protocols.default(read())
        every = {str(i): one for i, one in enumerate(drawn)}
    else:
        msg = _check.must(
            f"one of {', '.join(protocols.names())}, or a .json file",
            caller=_CALLER,
            name="--protocol",
            got=repr(name),
            remedy="To draw a new one: openset protocols holdout --help",
        )
        raise ValueError(msg)
    is_drawn = not given and name not in protocols.names()
    if all_splits:
        if is_drawn:
            for key, one in every.items():
                _say_drawn(one, key, len(every))
        return every
    by_case = {key.lower(): key for key in every}
    chosen = by_case.get(split.lower(), split) if split else next(iter(every))
    if chosen not in every:
        rule = f"one of {', '.join(every)}, the splits of {name}"
        msg = _check.must(rule, caller=_CALLER, name="--split", got=repr(split))
        raise ValueError(msg)
    if is_drawn:
        _say_drawn(every[chosen], chosen, len(every))
    return {chosen: every[chosen]}


def _say_drawn(protocol: Protocol, split: str, n_draws: int) -> None:
    if not _is_main_process():
        return
    names = ", ".join(map(str, protocol.unknown[:_SHOWN]))
    more = f" and {len(protocol.unknown) - _SHOWN} more"
    OUT.print(
        f"No published protocol for these data. Drawn with seed 0 (draw {split} of "
        f"{n_draws}): {protocol.n_known} known classes; unknown, and not trained on: "
        f"{escape(names)}{more * (len(protocol.unknown) > _SHOWN)}. It is saved with "
        "the results as protocol.json. To choose the known classes yourself: --known",
        highlight=False,
        soft_wrap=True,
    )


def _results(method: str, done: dict[str, Any]) -> Table:
    table = plain_table(f"{method}, test part, last epoch")
    table.add_column("run", no_wrap=True)
    columns = ("accuracy", "AUROC", "OpenAUC", "by max logit", "by max probability")
    for column in columns:
        table.add_column(column, justify="right")
    rows = []
    for name, one in done.items():
        published = one.evaluate("published")
        row = [published[metric] for metric in ("accuracy", "auroc", "openauc")]
        row += [one.evaluate(rule)["openauc"] for rule in ("maxlogit", "msp")]
        rows.append(row)
        table.add_row(name, *(f"{value:.4f}" for value in row))
    if len(rows) > 1:
        table.add_section()
        for name, summary in (("mean", statistics.mean), ("sd", statistics.stdev)):
            cells = (f"{summary(column):.4f}" for column in zip(*rows, strict=True))
            table.add_row(name, *cells)
    return table


def _tuned(train: Any, split: str, **settings: Any) -> Any:
    """Return what performed best on held-out known classes of a split."""
    found = train.tune(**settings)
    if _is_main_process():
        OUT.print(_tuning(split, found))
    return found


def _tuning(split: str, tuned: Any) -> Table:
    table = plain_table(f"Split {split}, on held-out known classes")
    table.add_column("values")
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


def _say_cautions(kind: Any, jobs: Iterable[Any]) -> None:
    """Print what was measured of options that do harm, each once."""
    for text in sorted({kind.caution(job.options or {}) for job in jobs} - {""}):
        OUT.print(f"[yellow]Note:[/yellow] {escape(text)}.", soft_wrap=True)


def _say_what_next(run: Path, trained: list[Protocol], *, several: bool) -> None:
    same = protocols.Draws(tuple(trained)).duplicates
    if same:
        OUT.print(
            "[yellow]Some of these splits are the same problem[/yellow] "
            f"({'; '.join(' = '.join(map(str, group)) for group in same)}): the "
            "standard deviation over splits is too small.",
            highlight=False,
        )
    where = escape(shlex.quote(str(run)))
    others = ", and so on for every run" if several else ""
    lines = [f"Outputs are in {where}/outputs, scores in {where}/scores{others}. Next:"]
    for purpose, command in {
        "all metrics": f"openset evaluate {where}/scores/published.npz",
        "another detector": f"openset score -d postmax --train "
        f"{where}/outputs/train.npz {where}/outputs/test.npz",
        "a report": f"openset report {where}",
        "a rejector": f"openset calibrate --run {where} --out rejector/",
        "new data": f"openset extract {where} DATA",
    }.items():
        lines.append(f"  {purpose + ':':<17} [bold]{command}[/bold]")
    OUT.print("\n".join(lines), highlight=False, soft_wrap=True)
