"""`openset watch`."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from openset import _check
from openset._io import is_url
from openset.cli._console import ERRORS, OUT
from openset.cli._detector_options import Plugins
from openset.cli._errors_in_options import RejectorPlace, naming
from openset.cli._lists import plain_table
from openset.rejector import Rejector
from openset.watch import Part, Verdict, Watch, read

EPILOG = """[bold]Examples[/bold]

openset watch rejector/ today.npz

openset watch rejector/ --reference calibration.npz --window 500 \\
    monday.npz tuesday.npz

openset watch rejector/ traffic/ --window 1000 --html page.html

openset watch rejector/ --reference lastweek.npz --all \\
    --false-alarms 0.001 today.npz || ./notify.sh"""

# Arguments of the library, by the option they come from.
_OPTIONS = {
    "false_alarms": "--false-alarms",
    "window": "--window",
    "plugins": "--plugin",
}


@naming("openset watch", _OPTIONS)
def command(
    folder: RejectorPlace,
    new: Annotated[
        list[Path],
        typer.Argument(
            metavar="NEW",
            help="Scores or outputs of new samples; one or more files, or folders of "
            "shards (traffic-*.npz) that openset serve --log wrote.",
        ),
    ],
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Scores or outputs from normal operation, or a folder of shards "
            "(default: the known samples of the calibration)."
        ),
    ] = None,
    false_alarms: Annotated[
        float,
        typer.Option(
            help="Probability that a window gives an alarm although nothing "
            "changed; higher finds smaller changes."
        ),
    ] = 0.01,
    window: Annotated[
        int | None,
        typer.Option(
            help="Number of samples per window (default: each file or folder is one "
            "window). Samples after the last full window are not compared."
        ),
    ] = None,
    whole: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Compare with all samples of the reference, for one recorded in "
            "operation (default: with its known samples only).",
        ),
    ] = False,
    features: Annotated[
        bool,
        typer.Option(
            "--features/--no-features",
            help="Also compare features, if both the reference and the new samples "
            "have them.",
        ),
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Also write the result as a web page (.html).",
        ),
    ] = None,
    plugin: Plugins = None,
) -> None:
    """Compare new samples with calibration samples; exit code 1 if they differ.

    The tests of a window compare the share of rejected samples (Fisher's exact test),
    the distribution of knownness (Kolmogorov-Smirnov) and the features (maximum mean
    discrepancy). The probability of a false alarm holds for all of them together.
    """
    if page is not None:
        _check.ending("openset watch", page, [".html"])
    rejector = Rejector.load(folder, plugins=plugin or ())
    watch = _watch(
        rejector, reference, whole=whole, features=features, false_alarms=false_alarms
    )
    if window is None:
        names = [path.name or str(path) for path in new]
        if len(set(names)) < len(names):  # monday/a.npz and tuesday/a.npz
            names = [str(path) for path in new]
        verdicts = [_checked(watch, read(rejector, path)) for path in new]
    else:
        parts = (read(rejector, path) for path in new)
        verdicts = list(watch.stream(parts, window))
        if not verdicts:
            msg = _check.must(
                "at most the number of new samples, so that a window is full",
                caller="openset watch",
                name="--window",
                got=window,
                remedy="Use a smaller --window, or give more samples",
            )
            raise ValueError(msg)
        names = [f"{v.start}…{v.start + v.n - 1}" for v in verdicts]
    if as_json:
        for name, verdict in zip(names, verdicts, strict=True):
            typer.echo(json.dumps({"window": name, **verdict.to_dict()}))
    else:
        OUT.print(_table(names, verdicts, false_alarms))
        _say_invalid(names, verdicts)
        _say_share(names, verdicts)
    if page is not None:
        _write_page(page, rejector, folder, reference, names, verdicts)
        if not OUT.quiet:
            ERRORS.say(f"wrote {escape(str(page))}")
    if any(verdict.is_alarm for verdict in verdicts):
        raise typer.Exit(1)


def _say_invalid(names: list[str], verdicts: list[Verdict]) -> None:
    for name, verdict in zip(names, verdicts, strict=True):
        if verdict.n_invalid:
            of = verdict.n + verdict.n_invalid
            text = (
                f"{name}: {verdict.n_invalid} of {of} samples are invalid (NaN, or no "
                "single largest logit) and not compared"
            )
            OUT.say(f"[bold yellow]invalid:[/bold yellow] {escape(text)}")


def _say_share(names: list[str], verdicts: list[Verdict]) -> None:
    """Print the share of unknown samples, what an alarm looks like, what to do."""
    for name, verdict in zip(names, verdicts, strict=True):
        for text in (verdict.prevalence, verdict.advice):
            if text:
                OUT.print(f"{escape(name)}: {text}", highlight=False)


def _write_page(
    page: Path,
    rejector: Rejector,
    folder: str,
    reference: Path | None,
    names: list[str],
    verdicts: list[Verdict],
) -> None:
    from openset import report  # noqa: PLC0415  # the extra may be missing

    known = f"the {rejector.threshold.n.known} known calibration samples"
    report.write_watch(
        page,
        names,
        verdicts,
        title=folder.rstrip("/") if is_url(folder) else Path(folder).resolve().name,
        facts={
            "Rejector": f"{rejector.fitted.detector!r}, threshold {rejector.threshold}",
            "Compared with": known if reference is None else str(reference),
        },
    )


def _watch(
    rejector: Rejector,
    reference: Path | None,
    *,
    whole: bool,
    features: bool,
    false_alarms: float,
) -> Watch:
    if reference is not None:
        before = read(rejector, reference)
        if before.scores.n_known == 0 and not whole:
            msg = (
                f"openset watch: {reference} must hold samples labelled as known, got "
                f"{len(before.scores)} unknown or unlabelled. Use --all if they were "
                "recorded in operation"
            )
            raise ValueError(msg)
        return Watch(
            rejector.threshold,
            before.scores,
            features=before.features if features else None,
            against="all" if whole else "knowns",
            false_alarms=false_alarms,
            rates=rejector.report.rates,
        )
    if whole:
        msg = (
            "openset watch: --reference must be given with --all, got none. The "
            "unknown samples of a calibration do not represent operation: give "
            "samples recorded there"
        )
        raise ValueError(msg)
    return Watch.of(rejector, features=features, false_alarms=false_alarms)


def _checked(watch: Watch, part: Part) -> Verdict:
    return watch.check(part.scores, features=part.features, n_invalid=part.n_invalid)


def _table(
    names: Iterable[str], verdicts: Iterable[Verdict], false_alarms: float
) -> Table:
    share = f"{100 * false_alarms:g}%"
    table = plain_table(f"At most {share} of windows give a false alarm")
    table.add_column("window", overflow="fold")
    for column in ("n", "test", "reference", "new", "distance", "p", ""):
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
