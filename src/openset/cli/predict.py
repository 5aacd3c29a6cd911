"""`openset predict`."""

from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from numpy.typing import NDArray
from rich.markup import escape

from openset import _check, _io, shards
from openset._types import UNKNOWN, InvalidSamplesError
from openset.cli._cautions import print_cautions
from openset.cli._console import ERRORS, OUT, Csv, Json, print_json
from openset.cli._detector_options import Plugins
from openset.cli._errors_in_options import RejectorPlace, keep_inputs, naming
from openset.cli._lists import plain_table
from openset.cli._shards import (
    SHARD_OPTIONS,
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
        found = shards.find(new)
        folder = need_folder(_CALLER, place)
        job = shards.Predict(
            rejector,
            format=format_ or "parquet",
            plugins=tuple(plugin or ()),
            invalid=cast(Invalid, invalid),
        )
        options = backend_options(_CALLER, backend=backend, jobs=jobs)
        print_cautions(Rejector.load(rejector, plugins=plugin or ()), ERRORS)
        run_shards(job, found, folder, **options)
        return
    refuse(_CALLER, format_=format_, jobs=jobs, backend=backend)
    out = None if place is None else Path(place)
    if out is not None:
        _check.ending("openset predict", out, [".csv", ".npz"])
    keep_inputs(_CALLER, out, new)
    opened = Rejector.load(rejector, plugins=plugin or ())
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
    if out is not None:
        opened.save_decisions(out, decisions, outputs)
        OUT.say(escape(f"wrote {out}"))
    elif as_csv:
        typer.echo(opened.csv(decisions, outputs), nl=False)
    elif as_json:
        print_json(
            {
                "n": len(decisions),
                "n_rejected": decisions.n_rejected,
                "n_invalid": decisions.n_invalid,
                "decisions": opened.rows(decisions, outputs),
            }
        )
    else:
        _print(opened, decisions, outputs)


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


def _print(rejector: Rejector, decisions: Decisions, outputs: Outputs) -> None:
    n = len(decisions)
    title = f"{decisions.n_rejected} of {n} samples unknown"
    title += f" ({decisions.n_rejected / n:.1%})"
    if decisions.n_invalid:
        title += f", {decisions.n_invalid} invalid"
    table = plain_table(title)
    rows = rejector.rows(decisions, outputs)
    named = [one for one in ("group", "id") if one in rows[0]]
    of_set = [one for one in ("set",) if one in rows[0]]
    for column in ("row", *named, "decision", "name", *of_set, "knownness", "margin"):
        if column in {*named, "name", "set"}:
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    for i, row in enumerate(rows[:_SHOWN]):
        is_invalid = row["invalid"]
        table.add_row(
            str(i),
            *(escape(str(row[one])) for one in named),
            str(row["decision"]),
            escape(row["name"] + " (invalid)" * is_invalid),
            *(escape("|".join(row[one])) for one in of_set),
            "-" if is_invalid else f"{row['known']:.4g}",
            "-" if is_invalid else f"{row['margin']:+.4g}",
            style="yellow" if row["decision"] == UNKNOWN else None,
        )
    OUT.print(table)
    if n > _SHOWN:
        OUT.print(f"... and {n - _SHOWN} more samples: use --csv, --json or --out")
