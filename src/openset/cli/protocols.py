"""`openset protocols`: list, show and draw.

Parameters
----------
classes
    Classes to draw from: their number, their names with commas, or the name of a data
    set.
n_known
    Number of known classes.
n_unknown
    Number of unknown classes.
repeats
    Number of independent draws (default: one).
seed
    Random seed; the same seed gives the same protocols on every machine.
out
    File to write, .json (default: print the JSON).
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import openset
from openset import _check
from openset.cli.options import Command, Json, Out, Root
from openset.cli.terminal import print_json, say, table

app = typer.Typer(invoke_without_command=True, rich_markup_mode="markdown")
PARTS = ("known", "negative", "surrogate", "unknown", "unused")
SHOWN = 200  # classes; all of them are in --json
Classes = Annotated[str, typer.Argument(metavar="CLASSES")]
Known = Annotated[int, typer.Option("--known")]
Unknown = Annotated[int, typer.Option("--unknown")]


@app.callback()
def _default(context: typer.Context) -> None:
    """List published protocols, show one, or draw new ones.

    Without a command, the published ones are listed.

        openset protocols

        openset protocols show cifar10 0
    """
    if context.invoked_subcommand is None:
        listed()


@app.command("list", cls=Command)
def listed(as_json: Json = False) -> None:
    """List the published protocols, split by split.

    In --json, n_distinct is the number of splits that are different problems.

        openset protocols list
        openset protocols list --json
    """
    published, records = openset.protocols.published, []
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}  # splits of one size share a row
    names = ("n_known", "n_unknown", "openness", "hash")
    for name in openset.protocols.names():
        each = {one: published(name, one) for one in openset.protocols.splits(name)}
        n_distinct = openset.protocols.Draws(tuple(each.values())).n_distinct
        record: dict[str, Any] = {"name": name, "n_distinct": n_distinct, "splits": []}
        records.append(record)
        for split, one in each.items():
            about = {key: getattr(one, key) for key in names}
            record["splits"].append({"split": split} | about)
            row = {"name": name, "splits": [], "known": one.n_known}
            row |= {"unknown": one.n_unknown, "openness": f"{one.openness:.3f}"}
            row |= {"distinct": f"{n_distinct} of {len(each)}"}
            rows.setdefault(tuple(map(str, row.values())), row)["splits"].append(split)
    if as_json:
        print_json(records)
        return
    table(rows.values(), "Published protocols")
    say("Show one: openset protocols show NAME SPLIT", style="dim")


@app.command(cls=Command)
def show(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    split: Annotated[str | None, typer.Argument(metavar="SPLIT")] = None,
    as_json: Json = False,
) -> None:
    """Show which classes are known and unknown in a protocol.

    Of a file with several draws, SPLIT is the number of one, from 0.

        openset protocols show cifar10 0
        openset protocols show draws.json --json

    Parameters
    ----------
    name
        A published protocol, or a .json file.
    split
        Name or number of the split (default: the first; of a file, all).
    """
    protocols = openset.protocols
    if not name.endswith(".json"):
        first = split or protocols.splits(name)[0]
        found: Any = protocols.published(name, first)
    else:
        found = protocols.load(name)
        if split is not None:
            each = _each(found)
            numbers = [str(i) for i in range(len(each))]
            found = each[int(_check.one_of("openset", "SPLIT", split, numbers))]
    if as_json:
        typer.echo(found.to_json())
    else:
        _print(found)


@app.command(cls=Command)
def holdout(
    classes: Classes,
    n_known: Known,
    n_unknown: Unknown,
    repeats: int | None = None,
    seed: int = 0,
    root: Root = None,
    out: Out = None,
) -> None:
    """Draw known and unknown classes from one data set.

    The classes that are left over are not used.

        openset protocols holdout 10 --known 6 --unknown 4 --repeats 5 --out draws.json
    """
    universe = _classes(classes, root)
    _deliver(
        openset.protocols.holdout(universe, n_known, n_unknown, repeats, seed), out
    )


@app.command(cls=Command)
def outlier(
    known_set: Classes,
    unknown_set: Annotated[str, typer.Argument(metavar="OTHER")],
    n_known: Annotated[int | None, typer.Option("--known")] = None,
    n_unknown: Annotated[int | None, typer.Option("--unknown")] = None,
    repeats: int | None = None,
    seed: int = 0,
    root: Root = None,
    out: Out = None,
) -> None:
    """Draw known classes from one data set and unknown ones from another.

    The two must be different data sets.

        openset protocols outlier cifar10 svhn --known 4 --unknown 4 --out draws.json

    Parameters
    ----------
    known_set
        Source of the known classes: their number, their names with commas, or the name
        of a data set.
    unknown_set
        Source of the unknown classes, in the same form.
    n_known
        Number of known classes (default: all).
    n_unknown
        Number of unknown classes (default: all).
    """
    known, unknown = _classes(known_set, root), _classes(unknown_set, root)
    draw = openset.protocols.outlier
    _deliver(draw(known, unknown, n_known, n_unknown, repeats=repeats, rng=seed), out)


@app.command(cls=Command)
def operational(
    classes: Classes,
    n_known: Known,
    n_surrogate: Annotated[int, typer.Option("--surrogate")],
    n_unknown: Unknown,
    validation: float = 0.2,
    tests: int = 5,
    unknowns: Literal["dealt", "shared"] = "dealt",
    repeats: int | None = None,
    seed: int = 0,
    root: Root = None,
    out: Out = None,
) -> None:
    """Draw known, surrogate and unknown classes, to choose and test a threshold.

    The threshold is chosen on validation samples and surrogates, and tested on
    others, as in the PostMax paper.

        openset protocols operational digits --known 5 --surrogate 2 --unknown 3

    Parameters
    ----------
    n_surrogate
        Number of surrogate classes.
    validation
        Share of each known class's training samples kept for validation.
    tests
        Number of disjoint test splits of the known samples.
    unknowns
        Unknown samples: each in one test split, or all in every split.
    """
    drawn = openset.protocols.operational(
        _classes(classes, root),
        n_known,
        n_surrogate,
        n_unknown,
        repeats=repeats,
        rng=seed,
        validation=validation,
        n_tests=tests,
        unknowns=unknowns,
    )
    _deliver(drawn, out)


def _classes(text: str, root: Path | None) -> Any:
    if text.isdecimal():
        return int(text)
    if "," in text:
        return [name.strip() for name in text.split(",") if name.strip()]
    return openset.datasets.load(text, root)


def _deliver(drawn: Any, out: Path | None) -> None:
    if out is None:
        typer.echo(drawn.to_json())
        return
    drawn.save(out)
    _print(drawn)
    say(f"wrote {out}")


def _each(found: Any) -> tuple[Any, ...]:
    return getattr(found, "protocols", None) or (found,)


def _print(drawn: Any) -> None:
    """Show the parts of one protocol; of several, a row each."""
    each, rows = _each(drawn), []
    if len(each) > 1:
        for i, one in enumerate(each):
            row = {"": i, "known": _few(one.known), "unknown": _few(one.unknown)}
            rows.append(row | {"openness": one.openness, "hash": one.hash[:8]})
        table(rows, f"{len(each)} protocols, {drawn.n_distinct} distinct")
        return
    one = each[0]
    for part in (part for part in PARTS if getattr(one, part)):
        classes = getattr(one, part)
        source = one.source if part == "unused" else one.source_of(part)
        row = {"part": part, "n": len(classes), "from": source}
        rows.append(row | {"classes": _few(classes)})
    table(rows, one.name or "protocol")
    about = [f"openness {one.openness:.3f}"]
    if one.n_tests > 1:
        about.append(f"{one.n_tests} test splits, unknown samples {one.unknowns}")
    if one.validation:
        about.append(f"validation {one.validation:.0%} of each class")
    say("\n".join([*about, f"seed {one.seed}", f"hash {one.hash}"]))


def _few(names: tuple[Any, ...]) -> str:
    more = f", … ({len(names)} in --json)" if len(names) > SHOWN else ""
    return ", ".join(map(str, names[:SHOWN])) + more
