"""`openset predict`."""

import csv
import io
from math import isnan
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import numpy as np
import typer
from numpy.typing import NDArray
from rich.markup import escape

from openset import _check, _io, _npz, shards
from openset._safe_text import csv_cell
from openset._types import UNKNOWN, InvalidSamplesError
from openset.cli._cautions import print_cautions
from openset.cli._console import ERRORS, OUT, Csv, Json, print_json
from openset.cli._detector_options import Plugins
from openset.cli._keys import Verify, read_key
from openset.cli._lists import plain_table
from openset.cli._options import RejectorPlace, keep_inputs, naming
from openset.cli._shards import (
    SHARD_OPTIONS,
    Address,
    Backend,
    Format,
    Jobs,
    backend_options,
    need_folder,
    refuse,
    run_shards,
)
from openset.outputs import Outputs
from openset.rejector import Decisions, Invalid, Rejector

EPILOG = """[bold]Examples[/bold]

openset predict rejector/ new.npz

openset predict rejector/ new.npz --csv

openset predict rejector/ new.npz --json

openset predict rejector/ new.npz --out decisions.csv

openset predict rejector/ new.npz --out decisions.npz

openset predict rejector/ shards/ --out decisions/ --jobs 8

openset predict rejector/ shards/ --out decisions/ --backend ray

openset predict rejector/ new.npz --out decisions.csv --invalid reject"""

_CALLER = "openset predict"
_SHOWN = 10

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "key": "--verify",
    "plugins": "--plugin",
    "invalid": "--invalid",
    **SHARD_OPTIONS,
}


@naming("openset predict", _OPTIONS)
def command(
    rejector: RejectorPlace,
    new: Annotated[
        str,
        typer.Argument(
            metavar="OUTPUTS",
            help="Outputs of the network on new samples: .npz or a folder of .npy "
            "files; or a folder, or a URL such as s3://bucket/shards, of many such "
            "shards (.npz, .parquet, folders).",
        ),
    ],
    as_csv: Csv = False,
    as_json: Json = False,
    place: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="PATH",
            help="Write to this .csv or .npz file; for shards, a folder or a URL.",
        ),
    ] = None,
    format_: Format = None,
    jobs: Jobs = None,
    backend: Backend = None,
    address: Address = None,
    invalid: Annotated[
        str,
        typer.Option(
            metavar="error|reject",
            help="What to do with samples that have NaN or no single largest logit: "
            "error (stop; of shards, those with such samples fail), or reject (decide "
            "-1, mark them in a column, and count them).",
        ),
    ] = "error",
    plugin: Plugins = None,
    verify: Verify = None,
) -> None:
    """Classify samples, or reject them as unknown (-1).

    For a folder of shards, --out gets one file of decisions per shard, as soon as the
    shard is finished. Run the same command again to continue.
    """
    if as_csv + as_json + (place is not None) > 1:
        msg = "openset predict: at most one of --csv, --json and --out can be given"
        raise typer.BadParameter(msg)
    _check.one_of(_CALLER, "--invalid", invalid, get_args(Invalid))
    if shards.is_folder_of_shards(new):
        found = shards.find(new, caller=_CALLER)
        folder = need_folder(_CALLER, place)
        job = shards.Predict(
            rejector,
            format=format_ or "parquet",
            plugins=tuple(plugin or ()),
            key=read_key(verify),
            invalid=cast(Invalid, invalid),
        )
        options = backend_options(_CALLER, backend=backend, address=address, jobs=jobs)
        print_cautions(job.load(), ERRORS)
        run_shards(job, found, folder, **options)
        return
    refuse(_CALLER, format_=format_, jobs=jobs, backend=backend, address=address)
    out = None if place is None else Path(place)
    if out is not None:
        _check.ending("openset predict", out, [".csv", ".npz"])
    keep_inputs(_CALLER, out, new)
    opened = Rejector.load(rejector, plugins=plugin or (), key=read_key(verify))
    how = cast(Invalid, invalid)
    try:
        outputs = Outputs.load(new, invalid="keep" if how == "reject" else "error")
        with _io.naming(Path(new)):
            decisions = opened.decide(outputs, invalid=how)
    except InvalidSamplesError as error:
        error.add_note("To answer such samples with unknown, use --invalid reject")
        raise
    print_cautions(opened, ERRORS)
    _say_invalid(decisions, outputs.ids)
    more = {"group": outputs.groups, "id": outputs.ids}
    if how == "reject":
        more = {"invalid": decisions.is_invalid, **more}
    named = {name: column for name, column in more.items() if column is not None}
    if out is not None:
        if out.suffix == ".npz":
            arrays: dict[str, NDArray[Any]] = {
                "decisions": decisions.labels,
                "predicted": decisions.predicted,
                "known": decisions.known,
                "margin": opened.margins(decisions),
            }
            if decisions.sets is not None:
                arrays["sets"] = decisions.sets
            _npz.write(out, arrays | named)
        else:
            _io.put(out, _csv(opened, decisions, named))
        OUT.say(escape(f"wrote {out}"))
    elif as_csv:
        typer.echo(_csv(opened, decisions, named), nl=False)
    elif as_json:
        print_json(_document(opened, decisions, named))
    else:
        _print(opened, decisions, named)


def _say_invalid(decisions: Decisions, ids: NDArray[Any] | None) -> None:
    if not decisions.n_invalid:
        return
    row = int(decisions.is_invalid.argmax())
    name = "" if ids is None else f", {ids[row]}"
    text = (
        f"{decisions.n_invalid} of {len(decisions)} samples are invalid and answered "
        f"with unknown; the first: row {row}{name}"
    )
    ERRORS.say(f"[bold yellow]invalid:[/bold yellow] {escape(text)}")


def _set_names(rejector: Rejector, decisions: Decisions) -> list[str] | None:
    """Return the classes of each set as text; None without sets."""
    if decisions.sets is None:
        return None
    return [
        "|".join(rejector.name_of(one) for one in classes)
        for classes in decisions.set_classes
    ]


def _csv(
    rejector: Rejector, decisions: Decisions, named: dict[str, NDArray[Any]]
) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    header = ["row", "decision", "name", "predicted", "known", "margin"]
    sets = _set_names(rejector, decisions)
    if sets is not None:
        named = {**named, "set": np.array(sets)}
    writer.writerow([*header, *named])
    labels = np.unique(decisions.labels).tolist()
    names = {one: csv_cell(rejector.name_of(one)) for one in labels}
    columns = zip(
        decisions.labels.tolist(),
        decisions.predicted.tolist(),
        decisions.known.tolist(),
        rejector.margins(decisions).tolist(),
        *(column.tolist() for column in named.values()),
        strict=True,
    )
    writer.writerows(
        [row, decision, names[decision], *map(csv_cell, rest)]
        for row, (decision, *rest) in enumerate(columns)
    )
    return text.getvalue()


def _document(
    rejector: Rejector, decisions: Decisions, named: dict[str, NDArray[Any]]
) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {
        "decision": decisions.labels.tolist(),
        "name": [rejector.name_of(int(one)) for one in decisions.labels],
        "predicted": decisions.predicted.tolist(),
        "known": _numbers(decisions.known),
        "margin": _numbers(rejector.margins(decisions)),
        **{name: column.tolist() for name, column in named.items()},
    }
    if decisions.sets is not None:
        columns["set"] = [
            [rejector.name_of(one) for one in classes]
            for classes in decisions.set_classes
        ]
    counts = {"n": len(decisions), "n_rejected": decisions.n_rejected}
    if "invalid" in named:
        counts["n_invalid"] = decisions.n_invalid
    return {
        **counts,
        "decisions": [
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ],
    }


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    """Return floats for JSON; of invalid samples there is none."""
    return [None if isnan(one) else one for one in values.tolist()]


def _print(
    rejector: Rejector, decisions: Decisions, named: dict[str, NDArray[Any]]
) -> None:
    labels, known = decisions.labels, decisions.known
    title = (
        f"{decisions.n_rejected} of {len(decisions)} samples unknown "
        f"({decisions.n_rejected / len(decisions):.1%})"
    )
    if decisions.n_invalid:
        title += f", {decisions.n_invalid} invalid"
    table = plain_table(title)
    named = {name: column for name, column in named.items() if name != "invalid"}
    sets = _set_names(rejector, decisions)
    of_set = [] if sets is None else ["set"]
    for column in ("row", *named, "decision", "name", *of_set, "knownness", "margin"):
        if column in {*named, "name", "set"}:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    margin = rejector.margins(decisions)
    for row in range(min(_SHOWN, len(decisions))):
        is_invalid = bool(decisions.is_invalid[row])
        name = rejector.name_of(int(labels[row]))
        table.add_row(
            str(row),
            *(escape(str(column[row])) for column in named.values()),
            str(labels[row]),
            escape(f"{name} (invalid)" if is_invalid else name),
            *([] if sets is None else [escape(sets[row])]),
            "-" if is_invalid else f"{known[row]:.4g}",
            "-" if is_invalid else f"{margin[row]:+.4g}",
            style="yellow" if labels[row] == UNKNOWN else None,
        )
    OUT.print(table)
    if len(decisions) > _SHOWN:
        n_more = len(decisions) - _SHOWN
        OUT.print(f"... and {n_more} more samples: use --csv, --json or --out")
