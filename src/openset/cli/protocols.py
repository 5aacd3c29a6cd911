"""`openset protocols`: list, show and draw."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from openset import _check, datasets, protocols
from openset.cli._console import OUT, Json, print_json
from openset.cli._errors_in_options import Root, naming
from openset.cli._help import Command, Group
from openset.cli._lists import few, plain_table
from openset.protocols import Draws, Protocol

_SHOW = "openset protocols show cifar10 0"
_HOLDOUT = """openset protocols holdout 10 --known 6 --unknown 4 --repeats 5 \\
    --out draws.json"""
_OUTLIER = """openset protocols outlier cifar10 svhn --known 4 --unknown 4 \\
    --out draws.json"""
_OPERATIONAL = """openset protocols operational digits --known 5 --surrogate 2 \\
    --unknown 3 --out p.json"""


def _examples(*listed: str) -> str:
    return "\n\n".join(["[bold]Examples[/bold]", *listed])


_MANY, _ALL = 10, 200  # classes listed in a table of several protocols, or of one

app = typer.Typer(
    name="protocols",
    cls=Group,
    help="List published protocols, show one, or draw new ones.",
    epilog=_examples("openset protocols", _SHOW, _HOLDOUT, _OUTLIER, _OPERATIONAL),
    invoke_without_command=True,
    rich_markup_mode="rich",
)

Classes = Annotated[
    str,
    typer.Argument(
        metavar="CLASSES",
        help="Classes to draw from: their number, their names separated by commas, "
        "or the name of a data set.",
    ),
]
Known = Annotated[int, typer.Option("--known", help="Number of known classes.")]
Unknown = Annotated[int, typer.Option("--unknown", help="Number of unknown classes.")]
Repeats = Annotated[
    int | None,
    typer.Option(help="Number of independent draws (default: one)."),
]
Seed = Annotated[
    int,
    typer.Option(
        help="Random seed; the same seed gives the same protocols on every machine."
    ),
]
Out = Annotated[
    Path | None, typer.Option(help="File to write, .json (default: print the JSON).")
]


@app.callback()
def _default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        listed()


@app.command(
    "list",
    cls=Command,
    epilog=_examples("openset protocols list", "openset protocols list --json"),
)
def listed(as_json: Json = False) -> None:
    """List the published protocols."""
    if as_json:
        print_json([_summary(name) for name in protocols.names()])
        return
    table = plain_table("Published protocols")
    for column in ("name", "splits"):
        table.add_column(column, no_wrap=True)
    for column in ("known", "unknown", "openness", "distinct"):
        table.add_column(column, justify="right", no_wrap=True)
    for name in protocols.names():
        splits = protocols.splits(name)
        each = Draws(tuple(protocols.published(name, split) for split in splits))
        # Splits of one size share a line.
        sizes: dict[tuple[int, int, str], list[int | str]] = {}
        for split, p in zip(splits, each, strict=True):
            size = (p.n_known, p.n_unknown, f"{p.openness:.3f}")
            sizes.setdefault(size, []).append(split)
        shown = [name, f"{each.n_distinct} of {len(each)}"]
        for (n_known, n_unknown, openness), alike in sizes.items():
            numbers = str(n_known), str(n_unknown), openness
            table.add_row(shown[0], _listed(alike), *numbers, shown[1])
            shown = ["", ""]
    OUT.print(table)
    OUT.print("Show one with: [bold]openset protocols show NAME SPLIT[/bold]")


def _summary(name: str) -> dict[str, Any]:
    each = {split: protocols.published(name, split) for split in protocols.splits(name)}
    return {
        "name": name,
        "n_distinct": Draws(tuple(each.values())).n_distinct,
        "splits": [
            {
                "split": split,
                "n_known": p.n_known,
                "n_unknown": p.n_unknown,
                "openness": p.openness,
                "hash": p.hash,
            }
            for split, p in each.items()
        ],
    }


def _listed(splits: Sequence[int | str]) -> str:
    if len(splits) > 2:
        return f"{splits[0]}–{splits[-1]}"
    return ", ".join(map(str, splits))


@app.command(
    "show",
    cls=Command,
    epilog=_examples(_SHOW, "openset protocols show draws.json --json"),
)
def show(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A published protocol, or a .json file."),
    ],
    split: Annotated[
        str | None,
        typer.Argument(
            metavar="SPLIT",
            help="Number of the split (default: the first; for a file, all of them).",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show which classes are known and unknown in a protocol."""
    if name.endswith(".json"):
        if not Path(name).exists():
            msg = f"openset protocols show: no such file: {name}"
            raise FileNotFoundError(msg)
        drawn = protocols.load(name)
        if split is not None:
            drawn = _one_of(drawn, split)
    else:
        with naming("openset protocols show", {"name": "NAME", "split": "SPLIT"}):
            first = protocols.splits(name)[0]
            drawn = protocols.published(name, first if split is None else split)
    if as_json:
        typer.echo(drawn.to_json())
    else:
        _print(drawn)


def _one_of(drawn: Protocol | Draws, split: str) -> Protocol:
    """Return one protocol of a file, by its index."""
    each = (drawn,) if isinstance(drawn, Protocol) else drawn.protocols
    numbers = [str(i) for i in range(len(each))]
    _check.one_of("openset protocols show", "SPLIT", split, numbers)
    return each[int(split)]


@app.command("holdout", cls=Command, epilog=_examples(_HOLDOUT))
def holdout(
    classes: Classes,
    n_known: Known,
    n_unknown: Unknown,
    repeats: Repeats = None,
    seed: Seed = 0,
    root: Root = None,
    out: Out = None,
) -> None:
    """Draw known and unknown classes from one data set."""
    with _naming("holdout"):
        universe = _classes(classes, root)
        drawn = protocols.holdout(universe, n_known, n_unknown, repeats, seed)
        _deliver(drawn, out)


@app.command("outlier", cls=Command, epilog=_examples(_OUTLIER))
def outlier(
    known_set: Classes,
    unknown_set: Annotated[
        str,
        typer.Argument(
            metavar="OTHER",
            help="Source of the unknown classes, in the same forms as CLASSES.",
        ),
    ],
    n_known: Annotated[
        int | None,
        typer.Option("--known", help="Number of known classes (default: all)."),
    ] = None,
    n_unknown: Annotated[
        int | None,
        typer.Option("--unknown", help="Number of unknown classes (default: all)."),
    ] = None,
    repeats: Repeats = None,
    seed: Seed = 0,
    root: Root = None,
    out: Out = None,
) -> None:
    """Draw known classes from one data set and unknown ones from another."""
    with _naming("outlier"):
        known = _classes(known_set, root)
        with naming("openset protocols outlier", {"name": "OTHER"}):
            unknown = _classes(unknown_set, root)
        drawn = protocols.outlier(
            known, unknown, n_known, n_unknown, repeats=repeats, rng=seed
        )
        _deliver(drawn, out)


@app.command("operational", cls=Command, epilog=_examples(_OPERATIONAL))
def operational(
    classes: Classes,
    n_known: Known,
    n_surrogate: Annotated[
        int, typer.Option("--surrogate", help="Number of surrogate classes.")
    ],
    n_unknown: Unknown,
    validation: Annotated[
        float,
        typer.Option(help="Share of the known training samples kept for validation."),
    ] = 0.2,
    n_tests: Annotated[
        int, typer.Option("--tests", help="Number of disjoint test splits.")
    ] = 5,
    unknowns: Annotated[
        str,
        typer.Option(
            help="dealt: every unknown sample is in exactly one test split. "
            "shared: every test split has all unknown samples."
        ),
    ] = "dealt",
    repeats: Repeats = None,
    seed: Seed = 0,
    root: Root = None,
    out: Out = None,
) -> None:
    """Draw known, surrogate and unknown classes, to choose and test a threshold."""
    with _naming("operational"):
        drawn = protocols.operational(
            _classes(classes, root),
            n_known,
            n_surrogate,
            n_unknown,
            repeats=repeats,
            rng=seed,
            validation=validation,
            n_tests=n_tests,
            unknowns=unknowns,
        )
        _deliver(drawn, out)


_OPTIONS = {
    "name": "CLASSES",
    "classes": "CLASSES",
    "known_set": "CLASSES",
    "unknown_set": "OTHER",
    "n_known": "--known",
    "n_surrogate": "--surrogate",
    "n_unknown": "--unknown",
    "n_tests": "--tests",
    "unknowns": "--unknowns",
    "validation": "--validation",
    "repeats": "--repeats",
    "rng": "--seed",
    "path": "--out",
}


def _naming(command: str) -> AbstractContextManager[None]:
    return naming(f"openset protocols {command}", _OPTIONS)


def _classes(text: str, root: Path | None) -> Any:
    """Parse a count, a list of names, or the name of a data set."""
    if text.isdecimal():
        return int(text)
    if "," in text:
        return [name.strip() for name in text.split(",") if name.strip()]
    return datasets.load(text, root)


def _deliver(drawn: Protocol | Draws, out: Path | None) -> None:
    if out is None:
        typer.echo(drawn.to_json())
        return
    drawn.save(out)
    _print(drawn)
    OUT.say(escape(f"wrote {out}"))


def _print(drawn: Protocol | Draws) -> None:
    if isinstance(drawn, Draws):
        longest, each = _MANY, drawn.protocols
        OUT.print(_table_of_draws(drawn))
    else:
        longest, each = _ALL, (drawn,)
        OUT.print(_table_of_one(drawn))
        # Complete and on one line, so that it can be copied.
        OUT.say(f"hash {drawn.hash}")
    parts = ("known", "negative", "surrogate", "unknown", "unused")
    if any(len(getattr(p, part)) > longest for p in each for part in parts):
        OUT.print("Complete lists and hashes: [bold]--json[/bold], or the file written")


def _table_of_draws(draws: Draws) -> Table:
    table = plain_table(f"{len(draws)} protocols, {draws.n_distinct} distinct")
    table.add_column("", justify="right", style="dim", no_wrap=True)
    table.add_column("known", overflow="fold")
    table.add_column("unknown", overflow="fold")
    table.add_column("openness", justify="right", no_wrap=True)
    table.add_column("hash", no_wrap=True, style="dim")
    for i, p in enumerate(draws):
        parts = [escape(few(part, _MANY)) for part in (p.known, p.unknown)]
        table.add_row(str(i), *parts, f"{p.openness:.3f}", f"{p.hash[:8]}…")
    return table


def _table_of_one(protocol: Protocol) -> Table:
    table = plain_table(escape(protocol.name) or "protocol")
    table.add_column("part", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("from", overflow="fold")
    table.add_column("classes", overflow="fold")
    for part in ("known", "negative", "surrogate", "unknown"):
        classes = getattr(protocol, part)
        if classes:
            shown = protocol.source_of(part), few(classes, _ALL)
            table.add_row(part, str(len(classes)), *map(escape, shown))
    if protocol.unused:
        shown = protocol.source, few(protocol.unused, _ALL)
        table.add_row("unused", str(len(protocol.unused)), *map(escape, shown))
    table.add_section()
    table.add_row("openness", "", "", f"{protocol.openness:.3f}")
    if protocol.validation:
        table.add_row("validation", "", "", f"{protocol.validation:.0%} of each class")
    if protocol.n_tests > 1:
        splits = f"{protocol.n_tests}, unknown samples {protocol.unknowns}"
        table.add_row("test splits", "", "", splits)
    table.add_row("seed", "", "", str(protocol.seed))
    return table
