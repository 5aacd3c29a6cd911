"""`openset watch`."""

import json
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from openset import _check, _io
from openset.cli._detector_options import Plugins
from openset.cli._keys import Verify, read_key
from openset.cli._lists import plain_table
from openset.cli._options import naming
from openset.cli._tables import OUT
from openset.outputs import Outputs
from openset.rejector import Rejector
from openset.scores import Scores
from openset.watch import Verdict, Watch

EPILOG = """[bold]Examples[/bold]

openset watch rejector/ today.npz

openset watch rejector/ --reference calibration.npz --window 500 \\
    monday.npz tuesday.npz

openset watch rejector/ --reference lastweek.npz --all \\
    --false-alarms 0.001 today.npz || page-somebody"""

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "false_alarms": "--false-alarms",
    "window": "--window",
    "key": "--verify",
    "plugins": "--plugin",
}


@naming("openset watch", _OPTIONS)
def command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="REJECTOR", help="Folder written by openset calibrate."),
    ],
    new: Annotated[
        list[Path],
        typer.Argument(
            metavar="NEW",
            help="Scores or outputs of new samples; one or more files.",
        ),
    ],
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Scores or outputs from normal operation (default: the known "
            "samples of the calibration)."
        ),
    ] = None,
    false_alarms: Annotated[
        float,
        typer.Option(help="Probability of an alarm per window if nothing changed."),
    ] = 0.01,
    window: Annotated[
        int | None,
        typer.Option(
            help="Number of samples per window (default: each file is one "
            "window). Samples after the last full window are not compared."
        ),
    ] = None,
    whole: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Compare with all samples of the reference, not only the known "
            "ones: for a reference recorded in operation.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line.")
    ] = False,
    plugin: Plugins = None,
    verify: Verify = None,
) -> None:
    """Compare new samples with calibration samples; exit code 1 if they differ.

    Two tests per window compare the share of rejected samples (Fisher's exact test) and
    the distribution of knownness (Kolmogorov-Smirnov). The probability of a false alarm
    holds for both together.
    """
    rejector = Rejector.load(folder, plugins=plugin or (), key=read_key(verify))
    watch = _watch(rejector, reference, whole=whole, false_alarms=false_alarms)
    parts = (_scores(rejector, path) for path in new)
    if window is None:
        names = [path.name for path in new]
        verdicts = [watch.check(part) for part in parts]
    else:
        verdicts = list(watch.stream(parts, window))
        if not verdicts:
            msg = _check.must(
                "at most the number of new samples",
                caller="openset watch",
                name="--window",
                got=window,
                remedy="No window is full, so nothing was compared",
            )
            raise ValueError(msg)
        names = [f"{v.start}…{v.start + v.n - 1}" for v in verdicts]
    if as_json:
        for name, verdict in zip(names, verdicts, strict=True):
            typer.echo(json.dumps({"window": name, **verdict.to_dict()}))
    else:
        OUT.print(_table(names, verdicts, false_alarms))
    if any(verdict.is_alarm for verdict in verdicts):
        raise typer.Exit(1)


def _watch(
    rejector: Rejector, reference: Path | None, *, whole: bool, false_alarms: float
) -> Watch:
    if reference is not None:
        before = _scores(rejector, reference)
        if before.n_known == 0 and not whole:
            msg = (
                f"openset watch: {reference} must hold samples labelled as known, got "
                f"{len(before)} unknown or unlabelled. Use --all if they were "
                "recorded in operation"
            )
            raise ValueError(msg)
        return Watch(
            rejector.threshold,
            before,
            against="all" if whole else "knowns",
            false_alarms=false_alarms,
        )
    if whole:
        msg = (
            "openset watch: --reference must be given with --all, got none. The "
            "unknown samples of a calibration do not represent operation: give "
            "samples recorded there"
        )
        raise ValueError(msg)
    return Watch.of(rejector, false_alarms=false_alarms)


def _scores(rejector: Rejector, path: Path) -> Scores:
    """Read scores; score outputs if the file holds outputs."""
    if path.suffix in {".csv", ".parquet"} or _holds_scores(path):
        return Scores.load(path)
    outputs = Outputs.load(path)
    with _io.naming(path):
        return rejector.score(outputs)


def _holds_scores(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return "known.npy" in archive.namelist()


def _table(
    names: Iterable[str], verdicts: Iterable[Verdict], false_alarms: float
) -> Table:
    share = f"{100 * false_alarms:g}%"
    table = plain_table(f"At most {share} of windows give a false alarm")
    table.add_column("window", overflow="fold")
    for column in ("n", "test", "before", "now", "distance", "p", ""):
        left = column in {"test", ""}
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    for row in _rows(names, verdicts):
        table.add_row(*row)
    return table


def _rows(names: Iterable[str], verdicts: Iterable[Verdict]) -> Iterator[list[str]]:
    for name, verdict in zip(names, verdicts, strict=True):
        head = [escape(name), str(verdict.n)]
        for test in verdict.tests:
            mark = "[bold red]alarm[/bold red]" if test.is_alarm else "ok"
            values = (test.reference, test.new)
            yield [
                *head,
                test.name,
                *(f"{value:.4g}" for value in values),
                f"{test.distance:+.3f}",
                f"{test.p_value:.2g}",
                mark,
            ]
            head = ["", ""]
